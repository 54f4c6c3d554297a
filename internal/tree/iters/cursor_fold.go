package iters

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
)

// The slow path of a cursor, the same as that of point reads (package tree): the newest
// visible version of a key is an operand. The versions of the key are collected until one
// ends the lookup, and the merge operator makes the value of them, which the cursor shows as
// an entry of its own.

// collector returns the fold, empty.
func (c *Cursor) collector() *mergeop.Fold {
	if c.fold == nil {
		c.fold = mergeop.New()
	}
	c.fold.Reset()
	return c.fold
}

// foldForward shows the key of the merge's entry, which is a visible operand. It leaves the
// merge behind the version that ends the lookup.
func (c *Cursor) foldForward() bool {
	m, f := &c.m, c.collector()
	in := &m.in[m.ord[0].in]
	key := append(c.buf[:0], in.e.Key(in.i)...)
	c.buf, c.hide, c.last = key, false, nil
	for more := true; more && len(m.ord) > 0; {
		in = &m.in[m.ord[0].in]
		e, i := &in.e, in.i
		if !c.same(e.Key(i), key) {
			break
		}
		if c.dels != nil && c.hides(in, i) {
			break // older versions are hidden, too
		}
		if !in.allVisible && !c.usable(e, i) {
			return false
		}
		if e.Trailers[i].Seq() > m.seq && !in.own { // behind own writes
			m.advance(i + 1)
			continue
		}
		buf := f.Buffer()
		if k := e.Trailers[i].Kind(); k.Refers() && !c.isGone(e, i) {
			var err error
			if buf, err = c.values.AppendValue(buf, k.Handle(e.Value(i))); err != nil {
				c.stop(err)
				return c.failed()
			}
		} else {
			buf = append(buf, e.Value(i)...)
		}
		switch t := e.Trailers[i]; t.Kind() {
		case base.KindMerge:
			f.Operand(buf)
		case base.KindSet, base.KindValueHandle:
			f.Existing(buf, len(f.Buffer()))
			more = false
		case base.KindExpiringHandle:
			if !c.isGone(e, i) {
				f.Existing(buf, len(f.Buffer()))
			}
			more = false
		case base.KindSetExpiring:
			if !c.isGone(e, i) {
				f.Existing(buf[:len(buf)-base.DeadlineLen], len(f.Buffer()))
			}
			more = false
		default:
			more = false
		}
		m.advance(i + 1)
	}
	if m.err != nil {
		return c.failed()
	}
	return c.show(key, true)
}

// foldNewer adds the operand of the present key that is next newer than all versions so
// far, of which the newest is entry i of e; nil: there is none. folding says that this one
// is an operand too. It reports false if that one's value cannot be read.
func (c *Cursor) foldNewer(e *base.Chunk, i int, folding bool, operand []byte) bool {
	if !folding {
		f := c.collector()
		if e != nil && !c.isGone(e, i) {
			value, buf, err := e.Value(i), f.Buffer(), error(nil)
			switch k := e.Trailers[i].Kind(); k {
			case base.KindValueHandle, base.KindExpiringHandle:
				buf, err = c.values.AppendValue(buf, k.Handle(value))
			case base.KindSetExpiring:
				value, _, _ = base.CutDeadline(value)
				buf = append(buf, value...)
			default:
				buf = append(buf, value...)
			}
			if err != nil {
				c.stop(err)
				return false
			}
			f.Existing(buf, 0)
		}
	}
	c.fold.Operand(append(c.fold.Buffer(), operand...))
	return true
}

// show makes an entry of key and the value of the collected versions, and moves the cursor
// to it. key is the caller's or in c.buf.
func (c *Cursor) show(key []byte, newestFirst bool) bool {
	value, err := c.fold.Value(c.op, key, newestFirst)
	if c.folds != nil {
		c.folds.CountFold(c.fold.Len(), err)
	}
	if err != nil {
		c.stop(err)
		return c.failed()
	}
	c.showOwn(key, value, c.m.seq)
	return true
}
