package tree

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// A follower's trees get entries from the logs of another process, and versions from its MANIFEST.
// That one's compactions keep what its own snapshots see, not what the follower's do. So a version
// replaces another one only together with a sequence number at which it is whole, and snapshots of
// earlier numbers go on reading the states that they were opened with.

// Next is what a tree reads after a Switch.
type Next struct {
	Tree *Tree
	// Tables are the memtables, newest first, at least one: the first one takes entries to come.
	Tables []*Sealed
	// Version is the tables, with a reference that Switch takes over; nil: those of the current
	// state.
	Version *manifest.Version
}

// has reports whether a memtable is among those of s.
func (s *ReadState) has(mem *memtable.MemTable) bool {
	return s.Mem == mem ||
		slices.ContainsFunc(s.Sealed, func(m *Sealed) bool { return m.Mem == mem })
}

// keeps reports whether s has all that old has: its tables are the same, and old's memtables are
// among its own.
func (s *ReadState) keeps(old *ReadState) bool {
	for i := -1; i < len(old.Sealed); i++ {
		if !s.has(old.memTable(i)) {
			return false
		}
	}
	return s.Version == old.Version
}

// Switch makes seq the visible sequence number, and the states of all nexts current, in one step: a
// read sees all of them with seq, or the states before without it. seq does not go back. The caller
// alone changes the states of these trees, except for Close and Drop. Of entries that come in the
// memtables of before, or in later ones, it calls Replayed first; known-empty ranges of a tree that
// gets others go.
func Switch(seqs *Sequences, nexts []Next, seq base.SeqNum) {
	var made []*ReadState
	defer func() {
		for _, s := range made { // guards that may have seen an earlier number may use s.before
			s.tree.shared.Reads.Retire(func() {
				if old := s.before; old.refs.Unref() {
					old.free()
				}
				s.before = nil
			})
		}
	}()
	owners := make([]epoch.Owner[ReadState], len(nexts))
	for i, n := range nexts {
		owners[i] = n.Tree.state.Lock()
		defer owners[i].Unlock()
	}
	seqs.mu.Lock()
	defer seqs.mu.Unlock()
	for i, n := range nexts {
		old := owners[i].Load()
		if old == nil { // closed meanwhile
			if n.Version != nil {
				n.Version.Unref()
			}
			continue
		}
		if n.Version == nil {
			old.Version.Ref()
			n.Version = old.Version
		}
		next := n.Tree.newState(n.Tables[0].Mem, n.Tables[0].FirstLog, n.Tables[1:], n.Version)
		if hasExpiring(next.Mem, next.Sealed, next.Version) {
			n.Tree.NoteExpiring()
		}
		noteNewest(next.Version, max(seq, 1))
		// A memtable goes without a new version where its flush left no table: all was deleted.
		// What older snapshots see went with it.
		if !next.keeps(old) {
			seqs.pinLocked(old, nil)
		}
		old.ref()
		next.since, next.before = seq, old
		made = append(made, next)
		// Learners of the state before do not see what another version has.
		if next.Version != old.Version || !next.has(old.Mem) {
			n.Tree.empties.Clear()
			defer n.Tree.empties.Resume(next.ordinal)
		}
		n.Tree.replace(owners[i], next)
	}
	seqs.Publish(seq)
}
