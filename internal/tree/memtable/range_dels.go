package memtable

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// rangeDels are the range tombstones of a memtable, which are no entries of its index and
// order.
type rangeDels struct {
	rangedel.Growing
	written atomic.Int64 // operations, also those that delete nothing
	// batch is the writer's: the tombstones of the batch that is being applied, which they alias.
	batch []rangedel.Tombstone
}

// addRangeDels makes the tombstones of a batch visible. It fails where the comparer does.
func (m *MemTable) addRangeDels() (err error) {
	d := &m.dels
	if len(d.batch) == 0 {
		return nil
	}
	d.written.Add(int64(len(d.batch)))
	if m.cmp.BuiltIn() {
		d.Add(m.cmp, d.batch)
	} else {
		err = m.cmp.Guard(func() error { d.Add(m.cmp, d.batch); return nil })
	}
	clear(d.batch) // keep no batch alive
	d.batch = d.batch[:0]
	m.tell()
	return err
}

// WantsFlush reports whether the memtable has as many range tombstones as it should have, or
// such that overlap each other too much.
func (m *MemTable) WantsFlush() bool { return m.dels.Full() }

// HasRangeDels reports whether RangeDels are any.
func (m *MemTable) HasRangeDels() bool { return m.dels.Any() }

// RangeDels are the range tombstones written so far, those visible at any sequence number, in
// some Lists; nil when there are none.
func (m *MemTable) RangeDels() []*rangedel.List { return m.dels.Lists(m.cmp) }

// CoveredAt is the sequence number of the newest range tombstone over the key of l that l
// sees, 0 if there is none.
func (m *MemTable) CoveredAt(l base.Lookup) (seq base.SeqNum) {
	for _, list := range m.RangeDels() {
		seq = max(seq, list.Newest(l.Key(), l.Seq))
	}
	return seq
}
