package tree

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/keyrange"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// What a transaction asks before it commits: has a key, or a range of keys, an entry that
// is newer than a sequence number? While a snapshot of that number is open the answer is
// exact: compactions drop an entry that is newer only for one that is newer still.

// Newer reports whether key has an entry that is newer than since, published or being
// committed. With sstable.MemoryOnly it fails with base.ErrWouldBlock where the answer
// needs I/O.
func (t *Tree) Newer(key []byte, since base.SeqNum,
	flags sstable.ReadFlags) (newer bool, err error) {
	h := hold{tree: t, guard: t.shared.Reads.Enter()}
	defer h.release(&err)
	if h.state = t.current(h.guard); h.state == nil {
		return false, t.Gone()
	}
	w := walk{since: since, noValue: true}
	w.begin(t, key, base.LastSeqNum, flags)
	buf := unwanted.Get().(*[]byte)
	value, trailer, _, err := h.next(&w, (*buf)[:0], nil)
	freeUnwanted(buf, value)
	return err == nil && max(trailer.Seq(), w.covered) > since, err
}

// mayBeNewer reports whether a table may have an entry newer than since.
func mayBeNewer(m *manifest.FileMeta, since base.SeqNum) bool {
	return m.Newest == 0 || m.Newest > since
}

// Place is how far the writes to a Tree had come at a moment.
type Place struct {
	mem *memtable.MemTable
	at  uint64
}

// Place returns the present one; on a closed Tree it fails with Gone.
func (t *Tree) Place() (Place, error) {
	g := t.shared.Reads.Enter()
	defer g.Exit()
	s := t.current(g)
	if s == nil {
		return Place{}, t.Gone()
	}
	return Place{s.Mem, s.Mem.Written()}, nil
}

// WrittenSince calls f with the key of each entry written after p, and del with the range of
// each range tombstone newer than since, until one of them returns false. It looks at
// memtables only: ok is false when the one of p has been flushed, or tables were ingested behind
// since. Commit leader only. A reference keeps the state: f and del call the comparer, which
// may take long, and a flush may replace the state meanwhile.
func (t *Tree) WrittenSince(p Place, since base.SeqNum, f func(key []byte) bool,
	del func(start, limit []byte) bool) (ok bool) {
	s := t.Acquire()
	if s == nil {
		return false
	}
	defer s.Unref()
	if t.mayHaveIngested(since) {
		return false
	}
	for i := -1; i < len(s.Sealed); i++ {
		m := s.memTable(i)
		for _, list := range m.RangeDels() {
			for _, fragment := range list.Fragments() {
				if fragment.Newest(base.MaxSeqNum) > since && !del(fragment.Start, fragment.Limit) {
					return true
				}
			}
		}
		from, more := uint64(0), true
		if m == p.mem {
			from = p.at
		}
		m.Since(from, func(key []byte) bool {
			more = f(key)
			return more
		})
		if !more || m == p.mem {
			return true
		}
	}
	return false
}

// NewerIn looks for an entry newer than since with a key from lower on, nil for the first
// of all, up to upper, nil for no end, or before it if it is not inclusive. It returns the key of
// one, or nil.
func (t *Tree) NewerIn(lower, upper []byte, inclusive bool,
	since base.SeqNum) (key []byte, err error) {
	defer t.catch(&err)
	s, _, err := t.acquireAt(nil)
	if err != nil {
		return nil, err
	}
	defer s.Unref()
	r := &keyrange.Range{Cmp: t.cmp, Lower: lower, Upper: upper, Inclusive: inclusive}
	if s.hasRangeDels() {
		if key, err := t.deletedIn(r, s, since); key != nil || err != nil {
			return key, err
		}
	}
	for i := -1; i < len(s.Sealed); i++ {
		if i >= 0 && s.Sealed[i].Last <= since && !t.mayHaveIngested(since) {
			return nil, nil
		}
		if key, err := r.Newest(s.memTable(i).NewSource(), since); key != nil || err != nil {
			return key, err
		}
	}
	return t.newerInTables(r, s, since)
}

// newerInTables is NewerIn of the tables.
func (t *Tree) newerInTables(r *keyrange.Range, s *ReadState, since base.SeqNum) ([]byte, error) {
	for _, m := range s.Version.Tables() {
		if !mayBeNewer(m, since) || r.EndsBefore(m.Smallest.User) || r.Lower != nil &&
			r.Cmp.Cmp(m.Largest.User, r.Lower) < 0 {
			continue
		}
		src, err := t.OpenSource(m, sstable.Scan)
		if err != nil {
			return nil, err
		}
		if key, err := r.Newest(src, since); key != nil || err != nil {
			return key, err
		}
	}
	return nil, nil
}

// deletedIn returns a key in the range that a range tombstone newer than since covers, not nil,
// or nil.
func (t *Tree) deletedIn(r *keyrange.Range, s *ReadState, since base.SeqNum) ([]byte, error) {
	for _, d := range s.rangeDels() {
		if key := r.CoveredBy(d.List, since); key != nil {
			return key, nil
		}
		for _, m := range d.Files {
			if !mayBeNewer(m, since) {
				continue
			}
			l, err := t.RangeDelsOf(m)
			if err != nil {
				return nil, err
			}
			if key := r.CoveredBy(l, since); key != nil {
				return key, nil
			}
		}
	}
	return nil, nil
}
