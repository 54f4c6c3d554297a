package tree

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
)

// Sequences is the visible sequence number of a database and the list of its
// snapshots. It is safe for concurrent use.
type Sequences struct {
	_       [120]byte
	visible atomic.Uint64 // written by every commit, so on a cache line of its own
	_       [120]byte

	mu        sync.Mutex    // a leaf
	snapshots []base.SeqNum // ascending, one for each open snapshot
}

// Visible is the largest sequence number that reads may see.
func (s *Sequences) Visible() base.SeqNum { return base.SeqNum(s.visible.Load()) }

// Publish makes everything up to seq visible. It is called by the commit leader
// when all of that is in the memtables.
func (s *Sequences) Publish(seq base.SeqNum) { s.visible.Store(uint64(seq)) }

// Snapshot is a sequence number to read at. While it is open, compactions keep the
// entries that are visible at it. It is safe for concurrent use.
type Snapshot struct {
	of     *Sequences
	seq    base.SeqNum
	closed atomic.Bool
}

// Open makes n, a zero Snapshot, one of the present.
func (s *Sequences) Open(n *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.of, n.seq = s, s.Visible()
	s.snapshots = append(s.snapshots, n.seq) // stays ascending: visible only grows
}

// Seq is the sequence number that the snapshot reads at.
func (n *Snapshot) Seq() base.SeqNum { return n.seq }

// Oldest is the sequence number of the oldest open snapshot; ok is false when there
// is none.
func (s *Sequences) Oldest() (seq base.SeqNum, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.snapshots) == 0 {
		return 0, false
	}
	return s.snapshots[0], true
}

// Close takes the snapshot off the list. Further calls do nothing.
func (n *Snapshot) Close() {
	if n.closed.Swap(true) {
		return
	}
	s := n.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := slices.BinarySearch(s.snapshots, n.seq); found {
		s.snapshots = slices.Delete(s.snapshots, i, i+1)
	}
}

// Snapshots lists the sequence numbers of the open snapshots, ascending.
func (s *Sequences) Snapshots() []base.SeqNum {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.snapshots)
}

// NumSnapshots is how many snapshots are open.
func (s *Sequences) NumSnapshots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.snapshots)
}

// after is the sequence number to read state at: that of snap, or of the present
// if snap is nil. It is called after state was loaded, see the package comment. For
// the same reason snap is found open only now: a compaction that began after its
// Close may be in a state that is loaded later.
func (t *Tree) after(state *ReadState, snap *Snapshot) (base.SeqNum, error) {
	if state == nil {
		return 0, t.Gone()
	}
	seq := t.shared.Seqs.Visible()
	if snap != nil {
		if snap.of != t.shared.Seqs {
			return 0, fmt.Errorf("%w: the snapshot is another database's", base.ErrInvalidArgument)
		}
		if snap.closed.Load() {
			return 0, base.ErrClosed
		}
		seq = min(seq, snap.seq)
	}
	return seq, nil
}
