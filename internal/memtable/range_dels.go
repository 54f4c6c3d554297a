package memtable

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/rangedel"
)

// rangeDels are the range tombstones of a memtable, which are no entries of its index and
// order. Those of one batch make a List, and Lists of about the same size are merged, so that
// there are as many as the logarithm of the number of tombstones, and each tombstone is
// merged as often.
type rangeDels struct {
	// lists is nil without tombstones: then nothing of this costs a reader more than the load
	// of the pointer.
	lists   atomic.Pointer[[]*rangedel.List]
	written atomic.Int64 // operations, also those that delete nothing

	// Fields of the writer.
	batch []rangedel.Tombstone // of the batch that is being applied; they alias it
	full  bool                 // it is time to flush the memtable
}

// Bounds of the tombstones in a memtable. Tombstones that overlap each other are cut into
// many; merging them must not take more than maxMerge.
const (
	maxRangeDels = 1 << 16
	maxMerge     = 1 << 18
	maxLists     = 64
)

// addRangeDels makes the tombstones of a batch visible. Readers see a batch whole or not at
// all, so that of those over a key the newest one is enough.
func (m *MemTable) addRangeDels() {
	d := &m.dels
	if len(d.batch) == 0 {
		return
	}
	d.written.Add(int64(len(d.batch)))
	list := rangedel.NewestOf(m.cmp, d.batch)
	clear(d.batch) // keep no batch alive
	d.batch = d.batch[:0]
	if list == nil {
		return
	}
	var lists []*rangedel.List
	if old := d.lists.Load(); old != nil {
		lists = append(lists, *old...)
	}
	lists = append(lists, list)
	for n := len(lists); n > 1 && 2*lists[n-1].Count() >= lists[n-2].Count(); n-- {
		if mergeCost(lists[n-2], lists[n-1]) > maxMerge {
			d.full = true
			break
		}
		lists = append(lists[:n-2], rangedel.Merge(m.cmp, lists[n-2], lists[n-1]))
	}
	total := 0
	for _, l := range lists {
		total += l.Count()
	}
	d.full = d.full || total > maxRangeDels || len(lists) > maxLists
	d.lists.Store(&lists)
}

// mergeCost bounds the tombstones that a merge of two Lists may make.
func mergeCost(a, b *rangedel.List) int {
	return (len(a.Fragments()) + len(b.Fragments())) * (a.Depth() + b.Depth())
}

// WantsFlush reports whether the memtable has as many range tombstones as it should have, or
// such that overlap each other too much. Writer only.
func (m *MemTable) WantsFlush() bool { return m.dels.full }

// RangeDels are the range tombstones written so far, those visible at any sequence number, in
// some Lists; nil when there are none.
func (m *MemTable) RangeDels() []*rangedel.List {
	if lists := m.dels.lists.Load(); lists != nil {
		return *lists
	}
	return nil
}

// CoveredAt is the sequence number of the newest range tombstone over the key of l that l
// sees, 0 if there is none.
func (m *MemTable) CoveredAt(l base.Lookup) (seq base.SeqNum) {
	for _, list := range m.RangeDels() {
		seq = max(seq, list.Newest(l.Key(), l.Seq))
	}
	return seq
}

func (d *rangeDels) memoryUsage() (n int64) {
	if lists := d.lists.Load(); lists != nil {
		for _, l := range *lists {
			n += l.Bytes()
		}
	}
	return n
}
