package txn

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// rangeDels is the range deletes of a keyspace. They are entries of the batch, but not of the
// list: a read looks for them beside it.
type rangeDels struct {
	offs []uint32 // of the entries in the batch
	// lists hold the first `listed` of them, and copies of their keys. Of those over a key
	// they keep the newest one: a reader that sees a list sees all of it.
	lists  []*rangedel.List
	listed int
}

func (d *rangeDels) reset() { *d = rangeDels{offs: d.offs[:0]} }

// rollBack takes back what the batch has from size on.
func (d *rangeDels) rollBack(size int) {
	n := len(d.offs)
	for n > 0 && int(d.offs[n-1]) >= size {
		n--
	}
	if d.offs = d.offs[:n]; d.listed > n {
		d.lists, d.listed = nil, 0
	}
}

// rangeDels is the present range deletes, in some Lists, each of which is at least half as
// long again as the next one.
func (s *Space) rangeDels() []*rangedel.List {
	d := &s.dels
	if d.listed == len(d.offs) {
		return d.lists
	}
	var added []rangedel.Tombstone
	for _, off := range d.offs[d.listed:] {
		_, start, limit := entryAt(s.b.repr, off)
		added = append(added, rangedel.Tombstone{Start: start, Limit: limit, Seq: sequence(off)})
	}
	d.listed = len(d.offs)
	cmp := s.list.cmp
	list := rangedel.NewestOf(cmp, added)
	if list == nil {
		return d.lists
	}
	lists := append(d.lists[:len(d.lists):len(d.lists)], list) // iterators keep the old ones
	for n := len(lists); n > 1 && 2*lists[n-1].Count() >= lists[n-2].Count(); n-- {
		merged := rangedel.Merge(cmp, lists[n-2], lists[n-1])
		lists = append(lists[:n-2], merged.Filter(func(f *rangedel.Fragment) []base.SeqNum {
			return f.Seqs[:1]
		}))
	}
	d.lists = lists
	return lists
}

// covered is the sequence number of the newest range delete over a key, 0 if there is none.
func (s *Space) covered(key []byte) (seq base.SeqNum) {
	if len(s.dels.offs) == 0 {
		return 0
	}
	for _, l := range s.rangeDels() {
		seq = max(seq, l.Newest(key, base.MaxSeqNum))
	}
	return seq
}

// eachRange calls f with keyspace, start and limit of each range delete.
func (b *Batch) eachRange(f func(id base.KeyspaceID, start, limit []byte)) {
	for _, s := range b.spaces[:b.used] {
		for _, off := range s.dels.offs {
			_, start, limit := entryAt(b.repr, off)
			f(s.id, start, limit)
		}
	}
}
