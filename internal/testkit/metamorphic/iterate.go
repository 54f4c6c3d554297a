package metamorphic

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// prefixBounds narrows bounds to the bytewise range of a prefix.
func prefixBounds(prefix, lower, upper []byte) ([]byte, []byte) {
	if prefix == nil {
		return lower, upper
	}
	if lower == nil || string(lower) < string(prefix) {
		lower = prefix
	}
	end := slices.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
		if upper == nil || string(upper) > string(end) {
			upper = end
		}
	}
	return lower, upper
}

func (w *world) openIter(o *op) error {
	if err := w.closeIter(o.slot); err != nil {
		return err
	}
	sp, prefix := w.space(o), o.prefix
	if sp.cmp != base.Bytewise {
		prefix = nil
	}
	opts := &lsm.IterOptions{Lower: o.key, Upper: o.limit, Prefix: prefix, KeysOnly: o.keysOnly,
		NoFillCache: o.n&1 == 1}
	seq := sp.model.Now()
	if o.from >= 0 && w.snaps[o.from].s != nil {
		opts.Snapshot, seq = w.snaps[o.from].s, w.snaps[o.from].seqs[w.index(o)]
	}
	lower, upper := prefixBounds(prefix, o.key, o.limit)
	i := iterator{it: w.iter(sp, opts), model: sp.model.Cursor(seq, lower, upper), prefix: prefix,
		keysOnly: o.keysOnly}
	w.iters[o.slot] = i
	return i.compare(false, false)
}

// compare holds the iterator against the model's cursor; ok is what the move
// reported and want what the model's did.
func (i *iterator) compare(ok, want bool) error {
	if ok != want || i.it.Valid() != want {
		return fmt.Errorf("move %v, valid %v, %v; want %v", ok, i.it.Valid(), i.it.Err(), want)
	}
	if err := i.it.Err(); err != nil {
		return err
	}
	if !want {
		return nil
	}
	value := i.model.Value()
	if i.keysOnly {
		value = ""
	}
	if string(i.it.Key()) != i.model.Key() || string(i.it.Value()) != value {
		return fmt.Errorf("at %q=%q; want %q=%q", clip(i.it.Key()), clip(i.it.Value()),
			clip(i.model.Key()), clip(value))
	}
	return nil
}

// move executes the operations on an open iterator.
func (w *world) move(o *op) error {
	i := &w.iters[o.slot]
	if i.it == nil {
		return nil
	}
	switch o.kind {
	case opFirst:
		return i.compare(i.it.First(), i.model.First())
	case opLast:
		return i.compare(i.it.Last(), i.model.Last())
	case opSeekGE:
		return i.compare(i.it.SeekGE(o.key), i.model.SeekGE(o.key))
	case opSeekLT:
		return i.compare(i.it.SeekLT(o.key), i.model.SeekLT(o.key))
	case opNext, opPrev:
		for range o.n {
			var ok, want bool
			if o.kind == opNext {
				ok, want = i.it.Next(), i.model.Next()
			} else {
				ok, want = i.it.Prev(), i.model.Prev()
			}
			if err := i.compare(ok, want); err != nil || !want {
				return err
			}
		}
		return nil
	case opSetBounds:
		i.it.SetBounds(o.key, o.limit)
		i.model.SetBounds(prefixBounds(i.prefix, o.key, o.limit))
		return i.compare(false, false)
	case opNextBlock:
		block, n := i.it.NextBlock(nil, o.n, o.bytes)
		return i.compareBlock(block, n, o, i.model.Next)
	default:
		block, n := i.it.PrevBlock(nil, o.n, o.bytes)
		return i.compareBlock(block, n, o, i.model.Prev)
	}
}

// compareBlock decodes a block and moves the model along.
func (i *iterator) compareBlock(block []byte, n int, o *op, move func() bool) error {
	used := 0
	for j := range n {
		if len(block)-used < 8 {
			return fmt.Errorf("entry %d of %d: block ends", j, n)
		}
		keyLen := int(binary.LittleEndian.Uint32(block[used:]))
		valueLen := int(binary.LittleEndian.Uint32(block[used+4:]))
		start := used + 8
		if keyLen+valueLen > len(block)-start {
			return fmt.Errorf("entry %d of %d: %d+%d bytes, %d left", j, n, keyLen, valueLen,
				len(block)-start)
		}
		used = start + keyLen + valueLen
		if !i.model.Valid() {
			return fmt.Errorf("entry %d of %d is beyond the end", j, n)
		}
		value := i.model.Value()
		if i.keysOnly {
			value = ""
		}
		if k, v := block[start:start+keyLen], block[start+keyLen:used]; string(k) !=
			i.model.Key() || string(v) != value {
			return fmt.Errorf("entry %d of %d is %q=%q; want %q=%q", j, n, clip(k), clip(v),
				clip(i.model.Key()), clip(value))
		}
		move()
	}
	if used != len(block) {
		return fmt.Errorf("%d bytes behind %d entries", len(block)-used, n)
	}
	if n > o.n || n < o.n && len(block) < o.bytes && i.model.Valid() {
		return fmt.Errorf("%d entries in %d bytes, asked for %d entries, %d bytes", n, len(block),
			o.n, o.bytes)
	}
	return i.compare(i.it.Valid(), i.model.Valid())
}
