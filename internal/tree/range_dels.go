package tree

import (
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/tree/iters"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// hasRangeDels reports whether a read must look for range tombstones.
func (s *ReadState) hasRangeDels() bool { return s.dels || s.Mem.HasRangeDels() }

// noteRangeDels sets dels. The memtable may get its first tombstone later.
func (s *ReadState) noteRangeDels() {
	for i := range s.Version.Levels {
		s.dels = s.dels || len(s.Version.Levels[i].RangeDels) > 0
	}
	for _, m := range s.Sealed {
		s.dels = s.dels || m.Mem.HasRangeDels()
	}
}

// rangeDels lists the range tombstones of s, numbered as Iterator.reset has their sources.
func (s *ReadState) rangeDels() (dels []iters.RangeDels) {
	source := 0
	mem := func(m *memtable.MemTable) {
		for _, l := range m.RangeDels() {
			dels = append(dels, iters.RangeDels{Source: source, List: l})
		}
		source++
	}
	mem(s.Mem)
	for _, m := range s.Sealed {
		mem(m.Mem)
	}
	for i := range s.Version.Levels[0].Files {
		if files := s.Version.Levels[0].Files[i : i+1]; files[0].RangeDels > 0 {
			dels = append(dels, iters.RangeDels{Source: source, Files: files})
		}
		source++
	}
	for i := 1; i < manifest.NumLevels; i++ {
		l := &s.Version.Levels[i]
		if len(l.RangeDels) > 0 {
			dels = append(dels, iters.RangeDels{Source: source, Files: l.RangeDels})
		}
		if len(l.Files) > 0 {
			source++
		}
	}
	return dels
}

// CoversTable reports whether a table has nothing but keys from start up to, not including,
// limit.
func (t *Tree) CoversTable(start, limit []byte) bool {
	g := t.shared.Reads.Enter()
	defer g.Exit()
	s := t.state.Load(g)
	if s == nil {
		return false
	}
	for i := range s.Version.Levels {
		for _, f := range s.Version.Levels[i].Overlaps(t.cmp, start, limit) {
			if t.cmp.Cmp(start, f.Smallest.User) <= 0 && f.EndsBefore(t.cmp, limit) {
				return true
			}
		}
	}
	return false
}

// RangeDelsOf returns the range tombstones of a table of a state that the caller holds.
func (t *Tree) RangeDelsOf(m *manifest.FileMeta) (*rangedel.List, error) {
	r, err := t.shared.Files.Reader(m)
	if err != nil {
		return nil, err
	}
	return r.RangeDels(), nil
}

// memTable is the memtable, or a sealed one, newest first; the first has index -1.
func (s *ReadState) memTable(i int) *memtable.MemTable {
	if i < 0 {
		return s.Mem
	}
	return s.Sealed[i].Mem
}
