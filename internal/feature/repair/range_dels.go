package repair

import (
	"bytes"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/store/files"
)

// noteRangeDels extends the table's record by its range tombstones, after its entries.
func (t *table) noteRangeDels(c *base.Comparer, list *rangedel.List) {
	frags := list.Fragments()
	if len(frags) == 0 {
		return
	}
	first, m := frags[0], t.meta
	start, limit := list.Ends()
	small := base.InternalKey{User: bytes.Clone(start), Trailer: base.MakeTrailer(first.Seqs[0],
		base.KindRangeDelete)}
	large := base.InternalKey{User: bytes.Clone(limit), Trailer: base.RangeDelEnd}
	if t.entries == 0 {
		t.minSeq, m.Smallest, m.Largest = first.Seqs[0], small, large
	}
	if c.CompareInternal(small.User, small.Trailer, m.Smallest.User, m.Smallest.Trailer) < 0 {
		m.Smallest = small
	}
	if c.CompareInternal(m.Largest.User, m.Largest.Trailer, large.User, large.Trailer) < 0 {
		m.Largest = large
	}
	for _, f := range frags {
		t.maxSeq, t.minSeq = max(t.maxSeq, f.Seqs[0]), min(t.minSeq, f.Seqs[len(f.Seqs)-1])
	}
}

// rangeDels are the range tombstones that an output has still to write.
type rangeDels struct {
	lists []*rangedel.List
	cut   []byte // those before it are written; nil: none is
}

// addRangeDel takes a range tombstone that was found.
func (o *output) addRangeDel(start, limit []byte, seq base.SeqNum) {
	one := rangedel.NewestOf(o.space.cmp,
		[]rangedel.Tombstone{{Start: start, Limit: limit, Seq: seq}})
	o.dels.lists = append(o.dels.lists, one)
}

// next returns those up to border, where the next table begins; nil is no border.
func (d *rangeDels) next(c *base.Comparer, border []byte) *rangedel.List {
	if len(d.lists) > 1 {
		d.lists = []*rangedel.List{rangedel.Merge(c, d.lists...)}
	}
	if len(d.lists) == 0 {
		return nil
	}
	return d.lists[0].Clip(d.cut, border)
}

// writeRangeDels writes those up to border to the table begun.
func (o *output) writeRangeDels(border []byte) error {
	list := o.dels.next(o.space.cmp, border)
	o.dels.cut = border
	o.t.noteRangeDels(o.space.cmp, list)
	return list.AddTo(o.w.Add)
}

// mergeRangeDels takes the range tombstones of tables that are merged.
func (o *output) mergeRangeDels(set *files.Set, tables []*table) error {
	for _, t := range tables {
		reader, err := set.Reader(t.meta)
		if err != nil {
			return err
		}
		if list := reader.RangeDels(); list != nil {
			o.dels.lists = append(o.dels.lists, list)
		}
	}
	return nil
}
