package native

import (
	"bytes"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
)

// RangeDels are the range tombstones.
func (r *Reader) RangeDels() *rangedel.List { return r.rangeDels }

// openRangeDels reads the block of range tombstones into memory that does not end with the
// Reader: iterators keep it.
func (r *Reader) openRangeDels(p *properties, h block.Handle, s *blocktable.Scratch) error {
	var mem block.Buffer
	defer mem.Free()
	v, err := r.readColumns(h, kindRangeDels, s, mem.Resize)
	if err != nil {
		return err
	}
	list, err := rangeDelsOf(&v, r.Env.Comparer, r.Env.GlobalSeq)
	if err == nil && p.RangeDels != uint64(v.Len()) {
		err = base.Corruptf("table range tombstones", "there are %d, the properties say %d",
			v.Len(), p.RangeDels)
	}
	r.rangeDels = list
	return blocktable.Final(err)
}

// rangeDelsOf makes a List of a block of range tombstones. seq is that of all, 0: each has its own.
func rangeDelsOf(v *block.View, cmp *base.Comparer, seq base.SeqNum) (*rangedel.List, error) {
	var frags []rangedel.Fragment
	for i := range v.Len() {
		key, t, limit := v.Key(i), v.Trailer(i), v.Value(i)
		at := max(seq, t.Seq())
		if t.Kind() != base.KindRangeDelete {
			return nil, base.Corruptf("table range tombstones", "entry %d is a %v", i, t.Kind())
		}
		if n := len(frags); n > 0 && cmp.Cmp(frags[n-1].Start, key) == 0 &&
			cmp.Cmp(frags[n-1].Limit, limit) == 0 {
			frags[n-1].Seqs = append(frags[n-1].Seqs, at)
			continue
		}
		frags = append(frags, rangedel.Fragment{Start: clone(key), Limit: clone(limit),
			Seqs: []base.SeqNum{at}})
	}
	list, ok := rangedel.New(cmp, frags)
	if !ok {
		return nil,
			base.Corruptf("table range tombstones", "they are no fragments in ascending order")
	}
	return list, nil
}

// clone copies a key; the copy is not nil.
func clone(key []byte) []byte {
	if len(key) == 0 {
		return []byte{}
	}
	return bytes.Clone(key)
}
