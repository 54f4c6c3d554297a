package tree

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
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

// rangeDels lists the range tombstones of s, where Tree.sources has their sources.
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

// getCovered is the search of Get where there are range tombstones. Each source is older than the
// sources before it, so a tombstone over the key ends the search, too. It
// reports false if the newest version of the key does not end the lookup.
func (h *hold) getCovered(key, dst []byte, seq base.SeqNum,
	flags sstable.ReadFlags) (value []byte, resolved bool, err error) {
	s, cmp := h.state, h.tree.cmp
	l := memtable.MakeLookup(cmp, key, seq)
	for i := -1; i < len(s.Sealed); i++ {
		m := s.memTable(i)
		covered := m.CoveredAt(l)
		if value, t, found := m.Get(l); found || covered > 0 {
			if found && t.Seq() >= covered {
				switch t.Kind() {
				case base.KindSet:
					return append(dst, value...), true, nil
				case base.KindDelete:
				case base.KindSetExpiring:
					value, err := h.at.live(append(dst, value...), len(dst))
					return value, true, err
				default:
					return dst, false, nil
				}
			}
			return dst, true, base.ErrNotFound
		}
	}
	l = base.MakeLookup(cmp, key, seq)
	next := candidates{version: s.Version}
	for m := next.file(h.tree, l); m != nil; m = next.file(h.tree, l) {
		covered, err := h.covered(m, l, flags)
		if err != nil {
			return dst, true, err
		}
		value, hit, found, err := h.fileGet(m, l, flags, dst)
		if err != nil {
			return dst, true, err
		}
		if !found && covered == 0 {
			continue
		}
		if found && hit.Trailer.Seq() >= covered {
			switch hit.Trailer.Kind() {
			case base.KindSet:
				return value, true, nil
			case base.KindDelete:
			case base.KindSetExpiring:
				value, err := h.at.live(value, len(dst))
				return value, true, err
			default:
				return dst, false, nil
			}
		}
		return dst, true, base.ErrNotFound
	}
	return dst, true, base.ErrNotFound
}

// covered is the sequence number of the newest range tombstone of a table over the key of l
// that l sees, 0 if there is none.
func (h *hold) covered(m *manifest.FileMeta, l base.Lookup,
	flags sstable.ReadFlags) (base.SeqNum, error) {
	if m.RangeDels == 0 {
		return 0, nil
	}
	r, ok := h.tree.shared.Files.OpenNow(m)
	if !ok {
		if flags&sstable.MemoryOnly != 0 {
			return 0, base.ErrWouldBlock
		}
		h.count()
		var err error
		if r, err = h.tree.shared.Files.Reader(m); err != nil {
			return 0, err
		}
	}
	return r.RangeDels().Newest(l.Key(), l.Seq), nil
}

// multiGetCovered is the search of MultiGet where there are range tombstones. The caller has a
// reference on s.
func (t *Tree) multiGetCovered(s *ReadState, keys [][]byte, seq base.SeqNum, r *MultiResult) error {
	h := hold{tree: t, state: s, counted: true, at: r.at}
	for i, key := range keys {
		value, resolved, err := h.getCovered(key, r.buf, seq, 0)
		switch {
		case !resolved:
			r.spans[i].end, r.slow = unresolved, true
		case err == nil:
			r.spans[i] = span{start: len(r.buf), end: len(value)}
			r.buf = value
		case !errors.Is(err, base.ErrNotFound):
			return err
		}
	}
	r.at = h.at
	if r.slow {
		return t.multiGetResolved(s, keys, seq, r)
	}
	return nil
}
