package tree

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// ReadState is one state of a Tree's memtables and tables. It is immutable but for
// its reference count.
type ReadState struct {
	Mem      *memtable.MemTable
	FirstLog uint64    // the oldest log that may have entries of Mem
	Sealed   []*Sealed // wait for their flush, newest first
	Version  *manifest.Version

	// A read that sees a smaller number than since reads before instead, see Switch; 0: none does.
	since  base.SeqNum
	before *ReadState

	tree    *Tree
	merge   *mergeop.Operator // of the operands, see Tree.SetMerge
	flushed base.SeqNum       // no memtable that was flushed had a newer entry
	ordinal uint64            // later states of the tree have larger ones
	refs    epoch.Refs
	dels    bool // Sealed or Version have range tombstones
}

// Sealed is a full memtable.
type Sealed struct {
	Mem      *memtable.MemTable
	FirstLog uint64      // the oldest log that may have entries of Mem
	Last     base.SeqNum // no entry of Mem is newer
}

// newState takes over the caller's reference on version and takes its own on the
// memtables.
//
// REQUIRES: the caller owns Tree.state, and the Tree is not closed.
func (t *Tree) newState(mem *memtable.MemTable, firstLog uint64, sealed []*Sealed,
	version *manifest.Version) *ReadState {
	t.ordinal++
	s := &ReadState{Mem: mem, FirstLog: firstLog, Sealed: sealed, Version: version, tree: t,
		flushed: t.flushed, ordinal: t.ordinal, merge: t.merge.Load()}
	s.refs.Init()
	s.noteRangeDels()
	t.states.Add(1)
	t.shared.Holders.n.Add(1)
	mem.Ref()
	for _, m := range sealed {
		m.Mem.Ref()
	}
	return s
}

// ref takes a reference.
//
// REQUIRES: s is current and the caller in a guard or the owner of Tree.state, or the caller has
// a reference.
func (s *ReadState) ref() { s.refs.Ref() }

// Unref gives a reference back. What the last one held is freed in the background:
// a reader does not wait for that.
func (s *ReadState) Unref() {
	if s.refs.Unref() {
		s.tree.shared.Reads.Retire(s.free)
	}
}

// free gives back what the state held. A retired function.
func (s *ReadState) free() {
	s.Mem.Unref()
	for _, m := range s.Sealed {
		m.Mem.Unref()
	}
	s.Version.Unref()
	s.tree.states.Add(-1)
	s.tree.shared.Holders.Release()
}

// retire gives back the Tree's reference on a state that is not current any more, when
// the guards that may have seen it have exited.
func (s *ReadState) retire() {
	s.tree.shared.Reads.Retire(func() {
		if s.refs.Settle() {
			s.free()
		}
	})
}

// OldestLog is the number of the oldest log that may have entries of the state's
// memtables. The memtable flushed, unless nil, does not count. any is false when no
// memtable has an entry. An entry whose commit is under way is in the current log.
func (s *ReadState) OldestLog(flushed *Sealed) (num uint64, any bool) {
	for i := len(s.Sealed) - 1; i >= 0; i-- {
		if s.Sealed[i] != flushed {
			return s.Sealed[i].FirstLog, true
		}
	}
	return s.FirstLog, s.Mem.Len() > 0
}

// MemTables is how many memtables there are, their memory in bytes, and their entries.
func (s *ReadState) MemTables() (n int, bytes int64, entries int) {
	bytes, entries = s.Mem.MemoryUsage(), s.Mem.Len()
	for _, m := range s.Sealed {
		bytes += m.Mem.MemoryUsage()
		entries += m.Mem.Len()
	}
	return 1 + len(s.Sealed), bytes, entries
}

// Holders counts the users of the table files and the block cache of a database: the open database
// itself, and each ReadState. Read states outlive their database when iterators do.
type Holders struct {
	n       atomic.Int64
	release func()
}

// NewHolders makes a Holders with one holder, the caller. release is called when
// the last holder has gone; it may be called in a retired function.
func NewHolders(release func()) *Holders {
	h := &Holders{release: release}
	h.n.Store(1)
	return h
}

// Release gives up a hold.
func (h *Holders) Release() {
	if h.n.Add(-1) == 0 {
		h.release()
	}
}

// DiskSize estimates how many bytes of tables hold the keys from start up to, not
// including, limit; nil is no bound. The caller has a reference.
func (s *ReadState) DiskSize(start, limit []byte) (uint64, error) {
	from, to := uint64(0), s.Version.Size()
	var err error
	if start != nil {
		if from, err = s.offsetOf(start); err != nil {
			return 0, err
		}
	}
	if limit != nil {
		if to, err = s.offsetOf(limit); err != nil {
			return 0, err
		}
	}
	return to - min(from, to), nil
}

// offsetOf sums the bytes of tables, or parts of tables, before key.
func (s *ReadState) offsetOf(key []byte) (uint64, error) {
	cmp := s.tree.cmp
	var sum uint64
	for _, m := range s.Version.Tables() {
		switch {
		case cmp.Cmp(m.Largest.User, key) < 0:
			sum += m.Size
		case cmp.Cmp(m.Smallest.User, key) < 0:
			r, err := s.tree.shared.Files.Reader(m)
			if err != nil {
				return 0, err
			}
			sum += r.OffsetOf(key, base.MaxTrailer)
		}
	}
	return sum, nil
}
