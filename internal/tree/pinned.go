package tree

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Pinned is the value that a GetPinned found, where it lies: in a block of the cache, which it
// pins, or in a memtable. It has a reference on the read state that it was found in. Where the
// block was not cached, or the value is made of operands, it is a copy.
//
// Values in mapped files are copied: after a truncation by another process, a read of theirs is a
// fault, which only code of package inplace can take.
//
// The zero Pinned has no value. One goroutine at a time uses it.
type Pinned struct {
	value []byte
	state *ReadState     // which has value; nil: value lies in buf
	frame sstable.Pinned // of value, if Valid
	buf   []byte         // for copies
}

// maxPinnedCopy is the largest buffer for copies that a Pinned keeps after Release, in bytes.
const maxPinnedCopy = 1 << 20

// Value is the value, until Release; nil: there is none.
func (p *Pinned) Value() []byte { return p.value }

// Copied reports whether the value is a copy of p's own, on the Go heap.
func (p *Pinned) Copied() bool { return p.value != nil && p.state == nil }

// Release gives up the value, if there is one.
func (p *Pinned) Release() {
	p.value = nil
	if p.frame.Valid() {
		p.frame.Release()
		p.frame = sstable.Pinned{}
	}
	if p.state != nil {
		p.state.Unref()
		p.state = nil
	}
	if cap(p.buf) > maxPinnedCopy {
		p.buf = nil
	}
}

// keep makes value, which lies in p.frame or in a memtable of state, that of p.
//
// REQUIRES: the caller holds state.
func (p *Pinned) keep(value []byte, state *ReadState) {
	state.ref()
	p.value, p.state = value[:len(value):len(value)], state
}

// Copy makes value, which is p's from now on and has no value before, that of p.
func (p *Pinned) Copy(value []byte) {
	if value == nil {
		value = []byte{}
	}
	p.value, p.buf = value, value
}

// GetPinned is Get of a value that stays where it is, until p.Release. What p had before is
// released; key may lie in it.
func (t *Tree) GetPinned(key []byte, snap *Snapshot, p *Pinned) (err error) {
	key = base.Apart(key, p.value)
	p.Release()
	if err := t.present(snap, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.Release()
		}
	}()
	guard, nth := t.shared.Reads.EnterCounted()
	h := hold{tree: t, guard: guard, at: t.at(snap)}
	if nth%getsPerSample == 1 {
		h.begun = hist.Now()
	}
	defer h.release(&err)
	var seq base.SeqNum
	if h.state, seq, err = t.stateFor(h.guard, snap); err != nil {
		return err
	}
	var w walk
	w.begin(t, key, seq, 0)
	trailer, found, err := h.pinNext(&w, p)
	if err != nil || !found {
		if err == nil {
			err = base.ErrNotFound
		}
		return err
	}
	switch trailer.Kind() {
	case base.KindSet:
		return nil
	case base.KindDelete:
		return base.ErrNotFound
	case base.KindSetExpiring:
		p.value, err = h.at.live(p.value, 0)
		return err
	}
	p.Release()
	value, err := t.getResolved(&h, key, p.buf[:0], seq, 0)
	if err == nil {
		p.Copy(value)
	}
	return err
}

// pinNext is next of a value that stays where it is.
func (h *hold) pinNext(w *walk, p *Pinned) (t base.Trailer, found bool, err error) {
	if value, t, found := w.inMemory(h, nil); found {
		p.keep(value, h.state)
		return t, true, nil
	}
	var sought, last uint32
	for m := w.nextTable(h); m != nil; m = w.nextTable(h) {
		if w.unordered(h, m) {
			w.zero-- // next begins with m
			value, t, found, err := h.next(w, p.buf[:0], nil)
			if found {
				p.Copy(value)
			}
			return t, found, err
		}
		r, err := h.open(m, w.flags)
		if err != nil {
			return 0, false, err
		}
		if m.RangeDels > 0 {
			w.cover(r.RangeDels().Newest(w.Key(), w.Seq))
		}
		hit, found, err := h.pinIn(r, w.Lookup, p)
		if err != nil || found {
			h.tree.soughtInVain(sought)
			return hit.Trailer, found && hit.Trailer.Seq() >= w.covered, err
		}
		if hit.Searched > 0 {
			last = hit.Searched
			sought += last
		}
	}
	h.tree.soughtInVain(sought - last) // one run would have been searched, too
	return 0, false, nil
}

// pinIn searches one table: in the cache, or else as Get does.
func (h *hold) pinIn(r sstable.Reader, l base.Lookup, p *Pinned) (sstable.Hit, bool, error) {
	if !r.MayContain(l) {
		return sstable.Hit{}, false, nil
	}
	at, ok := r.Find(l)
	if !ok {
		return sstable.Hit{}, false, nil
	}
	if frame, ok := r.Pin(at, l); ok {
		p.frame = frame
		value, hit, found := r.Entry(frame, at, l)
		if found {
			p.keep(value, h.state)
		} else {
			p.Release()
		}
		return hit, found, nil
	}
	h.addRef()
	value, hit, found, err := r.GetAt(at, l, 0, p.buf[:0])
	if found {
		p.Copy(value)
	}
	return hit, found, err
}
