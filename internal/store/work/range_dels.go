package work

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// settledRangeDels are the range tombstones of a table that every snapshot sees, see
// picker.Config. As with tombstoneDense, tables that nobody has opened are not looked at:
// those with range tombstones are opened when they are made, and by OpenRangeDels.
func (s *Scheduler) settledRangeDels(k *Keyspace, m *manifest.FileMeta) *rangedel.List {
	r, ok := s.opts.Files.OpenNow(m)
	if !ok {
		return nil
	}
	all := r.RangeDels()
	oldest, any := s.opts.Seqs.Oldest()
	if !any {
		return all
	}
	seen := all.Filter(func(f *rangedel.Fragment) []base.SeqNum {
		i := 0
		for i < len(f.Seqs) && f.Seqs[i] > oldest {
			i++
		}
		return f.Seqs[i:]
	})
	if seen.Count() < all.Count() {
		k.heldBySnapshot = true
		if !s.held.Swap(true) { // see heldLocked
			return s.settledRangeDels(k, m)
		}
	}
	return seen
}

// OpenRangeDels opens the tables of a tree that have range tombstones, so that the tables that
// they cover are dropped. It is called when the tree is started. A failure shows again when
// the table is read.
func (s *Scheduler) OpenRangeDels(k *Keyspace) {
	state := k.Acquire()
	if state == nil {
		return
	}
	defer state.Unref()
	for i := range state.Version.Levels {
		for _, m := range state.Version.Levels[i].RangeDels {
			s.opts.Files.Reader(m)
		}
	}
}
