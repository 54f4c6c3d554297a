package tree

import (
	"maps"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/epoch"
)

// A compaction leaves what snapshots see as it is: it lists them when it begins, and what it drops
// is hidden from them and from all that are opened later. A compaction filter goes further: it
// takes away what is newest, which a snapshot may see that is opened while the compaction runs.
// Such snapshots go on reading the state before the compaction: when its result is installed, they
// are pinned to that state, with its memtables and tables, until they are closed. Snapshots opened
// afterwards read that result, also where no write came between: Sequences.turn tells them apart.

// pinKey is the snapshots of one opening, as readers of one tree.
type pinKey struct {
	tree *Tree
	opening
}

// pinned maps snapshots to the state that they read instead of the current one. It is
// replaced, never changed, and holds a reference on each state.
type pinned map[pinKey]*ReadState

// InstallFiltered is Install for a compaction whose filter removed or changed entries
// above the snapshots that it listed, ascending.
func (t *Tree) InstallFiltered(version *manifest.Version, listed []base.SeqNum) {
	o := t.state.Lock()
	defer o.Unlock()
	s := o.Load()
	if s == nil {
		version.Unref()
		return
	}
	seqs := t.shared.Seqs
	seqs.mu.Lock()
	defer seqs.mu.Unlock()
	seqs.pinLocked(s, listed)
	t.replace(o, t.newState(s.Mem, s.FirstLog, s.Sealed, version))
}

// pinLocked makes the open snapshots that are not among the listed ones read state, unless they
// read an older one already. The caller makes another state current only then: a reader loads the
// current state before it looks for a pinned one.
//
// REQUIRES: s.mu held.
func (s *Sequences) pinLocked(state *ReadState, listed []base.SeqNum) {
	from := 0
	if n := len(listed); n > 0 {
		from = s.from(listed[n-1] + 1)
	}
	if from < len(s.snapshots) {
		o := s.pins.Lock()
		defer o.Unlock()
		next := pinned{}
		if p := o.Load(); p != nil {
			next = maps.Clone(*p)
		}
		s.turn++
		for _, at := range s.snapshots[from:] {
			key := pinKey{state.tree, at}
			if next[key] == nil {
				state.ref()
				next[key] = state
			}
		}
		o.Swap(&next)
	}
}

// InstallAlone is Install of the version that apply makes, if no snapshot is open, and none is
// opened before it is current. It reports whether that is so: otherwise it does not call apply,
// which must not ask for snapshots.
func (t *Tree) InstallAlone(apply func() (*manifest.Version, error)) (alone bool, err error) {
	o := t.state.Lock()
	defer o.Unlock()
	seqs := t.shared.Seqs
	seqs.mu.Lock()
	defer seqs.mu.Unlock()
	s := o.Load()
	if s == nil || len(seqs.snapshots) > 0 {
		return false, nil
	}
	version, err := apply()
	if err == nil {
		t.replace(o, t.newState(s.Mem, s.FirstLog, s.Sealed, version))
	}
	return true, err
}

// unpinLocked forgets what goes.
//
// REQUIRES: s.mu held.
func (s *Sequences) unpinLocked(goes func(pinKey) bool) {
	if s.pins.Empty() {
		return
	}
	o := s.pins.Lock()
	defer o.Unlock()
	next := pinned{}
	for key, state := range *o.Load() {
		if goes(key) {
			defer state.unpin()
		} else {
			next[key] = state
		}
	}
	if len(next) == 0 {
		o.Swap(nil)
		return
	}
	o.Swap(&next)
}

// unpin gives back the reference of a pin, when the guards that may have seen it have exited.
func (s *ReadState) unpin() {
	s.tree.shared.Reads.Retire(func() {
		if s.refs.Unref() {
			s.free()
		}
	})
}

// unpinTree forgets what is pinned of a tree that has no state any more.
func (s *Sequences) unpinTree(t *Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpinLocked(func(k pinKey) bool { return k.tree == t })
}

// stateAt is the state that snap reads: the current one, state, or the one that it is pinned to.
func (s *Sequences) stateAt(g epoch.Guard, state *ReadState, snap *Snapshot) *ReadState {
	if p := s.pins.Load(g); p != nil {
		if old := (*p)[pinKey{state.tree, snap.opening}]; old != nil {
			return old
		}
	}
	return state
}
