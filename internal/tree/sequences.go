package tree

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/tree/empties"
)

// Sequences is the visible sequence number of a database, the list of its snapshots, and the clock
// for expiry. It is safe for concurrent use.
type Sequences struct {
	_       [120]byte
	visible atomic.Uint64 // written by every commit, so on a cache line of its own
	_       [120]byte

	Clock Clock // its Init comes first
	// Demand is a follower's, nil in other databases. It is set before there is a Tree.
	Demand *Demand
	// Released is called after the oldest snapshot was closed, without a lock. nil: nobody is
	// told. It is set before there is a Tree.
	Released func()

	// held while the clock is asked; otherwise only pins' lock follows
	mu        sync.Mutex
	snapshots []opening             // those open, ascending in each field
	turn      uint64                // counts what only later snapshots see: refusals and pins
	pins      epoch.Pointer[pinned] // empty: none; its owner holds mu
}

// opening is when a snapshot was opened.
type opening struct {
	seq  base.SeqNum // visible then
	now  uint64      // by the clock; 0: there were no entries that expire
	turn uint64      // Sequences.turn
}

// from is the place in the list of the first snapshot of seq or a larger number. s.mu is held.
func (s *Sequences) from(seq base.SeqNum) int {
	return sort.Search(len(s.snapshots), func(i int) bool { return s.snapshots[i].seq >= seq })
}

// Visible is the largest sequence number that reads may see.
func (s *Sequences) Visible() base.SeqNum { return base.SeqNum(s.visible.Load()) }

// Publish makes everything up to seq visible. It is called by the commit leader
// when all of that is in the memtables.
func (s *Sequences) Publish(seq base.SeqNum) { s.visible.Store(uint64(seq)) }

// Snapshot is a sequence number to read at. While it is open, compactions keep the
// entries that are visible at it. It is safe for concurrent use.
type Snapshot struct {
	of *Sequences
	opening
	closed atomic.Bool
	// known are the known-empty ranges that only its own readers have use for.
	known atomic.Pointer[knownAt]
}

// knownAt is the known-empty ranges of a snapshot in a tree.
type knownAt struct {
	tree *Tree
	set  empties.Set
	next *knownAt // of another tree
}

// empties returns the ranges of a tree, or nil. make: there are some from now on.
func (n *Snapshot) empties(t *Tree, make bool) *empties.Set {
	for {
		first := n.known.Load()
		for k := first; k != nil; k = k.next {
			if k.tree == t {
				return &k.set
			}
		}
		if !make {
			return nil
		}
		n.known.CompareAndSwap(first, &knownAt{tree: t, next: first})
	}
}

// WaitFresh waits until a follower's state is not too old for a read of the present. The caller
// holds no lock that a catch-up takes.
func (s *Sequences) WaitFresh() {
	if s.Demand != nil {
		s.Demand.Wait(nil)
	}
}

// Open makes n, a zero Snapshot, one of the present. WaitFresh comes before.
func (s *Sequences) Open(n *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.of, n.seq, n.turn = s, s.Visible(), s.turn
	if s.Clock.InUse() {
		n.now = s.Clock.Now()
	}
	s.snapshots = append(s.snapshots, n.opening) // stays ascending: visible only grows
}

// Refuse says that the keyspace of a tree is being dropped: its reads fail with base.ErrNoKeyspace
// from now on, but for those at snapshots that are open already. Further calls do nothing.
func (s *Sequences) Refuse(t *Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.Refused() {
		s.turn++
		t.refused.Store(s.turn)
	}
}

// MayRead reports whether an open snapshot may read a tree after its Refuse. Once it is false it
// stays so.
func (s *Sequences) MayRead(t *Tree) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.snapshots) > 0 && t.serves(s.snapshots[0].turn)
}

// Seq is the sequence number that the snapshot reads at.
func (n *Snapshot) Seq() base.SeqNum { return n.seq }

// Oldest is the sequence number of the oldest open snapshot; ok is false when there is none.
func (s *Sequences) Oldest() (seq base.SeqNum, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.snapshots) == 0 {
		return 0, false
	}
	return s.snapshots[0].seq, true
}

// Close takes the snapshot off the list. Further calls do nothing.
func (n *Snapshot) Close() {
	if s := n.of; !n.closed.Swap(true) && s.remove(n) && s.Released != nil {
		s.Released()
	}
}

// remove takes n off the list, and reports whether no other snapshot is as old.
func (s *Sequences) remove(n *Snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.from(n.seq)
	for s.snapshots[i] != n.opening {
		i++
	}
	s.snapshots = slices.Delete(s.snapshots, i, i+1)
	alone, oldest := true, i == 0
	for _, o := range s.snapshots[max(0, i-1):min(i+1, len(s.snapshots))] { // those beside it
		alone = alone && o != n.opening
		oldest = oldest && o.seq != n.seq
	}
	if alone {
		s.unpinLocked(func(k pinKey) bool { return k.opening == n.opening })
	}
	return oldest
}

// Snapshots lists the sequence numbers of the open snapshots, ascending, and when each was
// opened.
func (s *Sequences) Snapshots() (seqs []base.SeqNum, begun []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.snapshots {
		seqs, begun = append(seqs, o.seq), append(begun, o.now)
	}
	return seqs, begun
}

// Expired is the last deadline that is over for all readers, those of open snapshots and
// those to come. 0: there is none.
func (s *Sequences) Expired() uint64 {
	if !s.Clock.InUse() {
		return 0
	}
	now := s.Clock.Now() // before the snapshots: those that are opened later begin later
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.snapshots) > 0 {
		now = min(now, s.snapshots[0].now)
	}
	return now
}

// NumSnapshots is how many snapshots are open.
func (s *Sequences) NumSnapshots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.snapshots)
}

// stateFor is the state to read, and the sequence number to read it at, for snap, or for
// the present if snap is nil. The state is loaded first, see the package comment. For the
// same reason snap is found open only afterwards: a compaction that began after its Close
// may be in a state that is loaded later. The state may be used until g exits.
func (t *Tree) stateFor(g epoch.Guard, snap *Snapshot) (*ReadState, base.SeqNum, error) {
	state := t.state.Load(g)
	if state == nil || t.Refused() && (snap == nil || !t.serves(snap.turn)) {
		return nil, 0, t.Gone()
	}
	seq, together := t.shownWith(g, state)
	if !together {
		return t.stateFor(g, snap)
	}
	if seq < state.since {
		state = state.before
	}
	if snap != nil {
		if snap.of != t.shared.Seqs {
			return nil, 0, fmt.Errorf("%w: the snapshot is another database's",
				base.ErrInvalidArgument)
		}
		state = t.shared.Seqs.stateAt(g, state, snap)
		if snap.closed.Load() {
			return nil, 0, base.ErrSnapshotClosed
		}
		seq = min(seq, snap.seq)
	}
	return state, seq, nil
}

// shownWith is the visible sequence number, and tells whether state was still current with it.
func (t *Tree) shownWith(g epoch.Guard, state *ReadState) (seq base.SeqNum, together bool) {
	seq = t.shared.Seqs.Visible()
	return seq, t.state.Load(g) == state
}
