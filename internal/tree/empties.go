package tree

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/tree/empties"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// The doc.go of package empties says why known-empty ranges hold. The steps that it names are here
// and in sequences.go: writers cut (W2), iterators learn (L3 to L5) and ask (R3).

// cutEmpties takes the keys of a batch, which is in the memtable and not visible yet, out of
// known-empty ranges.
func (t *Tree) cutEmpties(batch []byte) {
	for it := batchrepr.Read(batch); ; {
		_, kind, key, _, ok := it.Next()
		if !ok {
			return
		}
		if kind.GivesValue() {
			t.cutEmpty(key)
		}
	}
}

// cutEmpty is cutEmpties of one key.
func (t *Tree) cutEmpty(key []byte) {
	if t.empties.Cut(t.cmp, key) {
		t.shared.Ops.EmptyCuts.Add(1)
	}
}

// StopLearning prepares the tree for tables with keys from lo to hi, both inclusive, that come
// beside the memtable: no known-empty range has such a key, and none is learned. ResumeLearning
// follows when the tables are in the current state, or will not come.
func (t *Tree) StopLearning(lo, hi []byte) { t.empties.Stop(t.cmp, lo, hi) }

// ResumeLearning has readers of the current state, and of later ones, learn again.
func (t *Tree) ResumeLearning() {
	o := t.state.Lock()
	defer o.Unlock()
	if s := o.Load(); s != nil {
		t.empties.Resume(s.ordinal)
	}
}

// PauseLearning comes before a follower's tree gets entries of a log, in whichever memtable:
// iterators learn no known-empty range until ResumeLearning, after the Switch that shows them.
func (t *Tree) PauseLearning() { t.empties.Pause() }

// Replayed takes the key of an entry of a log out of known-empty ranges, between PauseLearning and
// the Switch that shows it.
func (t *Tree) Replayed(kind base.Kind, key []byte) {
	if kind.GivesValue() && t.empties.Any() {
		t.cutEmpty(key)
	}
}

// Within is for iters.Empties. The sequence number was loaded by Init.
func (it *Iterator) Within(key []byte) *empties.Fact {
	return it.known(func(s *empties.Set) *empties.Fact {
		return s.Find(it.tree.cmp, key, &it.view)
	})
}

// Edge is for iters.Empties.
func (it *Iterator) Edge(end bool) *empties.Fact {
	return it.known(func(s *empties.Set) *empties.Fact { return s.Edge(end, &it.view) })
}

// known looks for a fact among those of the tree, then among those of the snapshot.
func (it *Iterator) known(find func(s *empties.Set) *empties.Fact) *empties.Fact {
	f := find(&it.tree.empties)
	if f == nil && it.snap != nil {
		if own := it.snap.empties(it.tree, false); own != nil {
			f = find(own)
		}
	}
	return f
}

// EmptyRanges is how many known-empty ranges the tree has.
func (t *Tree) EmptyRanges() int { return t.empties.Len() }

// Count is for iters.Empties.
func (it *Iterator) Count(dead, ranges int) { it.dead, it.hits = it.dead+dead, it.hits+ranges }

// tellPassed has Operations count what Count was told.
func (it *Iterator) tellPassed() {
	if it.dead+it.hits > 0 {
		it.tree.shared.Ops.DeadPassed.Add(int64(it.dead))
		it.tree.shared.Ops.EmptyHits.Add(int64(it.hits))
		it.tree.noteReader(it.dead, it.hits)
		it.dead, it.hits = 0, 0
	}
}

// Passed is for iters.Empties: it makes what the iterator passed over known, to all readers or, as
// entries newer than a snapshot have no part in it, to those of the snapshot. An iterator over the
// reader's own range deletes learns nothing.
func (it *Iterator) Passed(r *empties.Range, dead int, newer, expired bool) {
	if !it.learns || newer && it.snap == nil {
		return
	}
	l := learner{tree: it.tree, mem: it.state.Mem}
	f := &l.fact
	f.Range, f.View, f.Dead = *r, it.view, dead
	f.Lo, f.Hi = slices.Clone(r.Lo), slices.Clone(r.Hi)
	if !expired {
		f.Now = 0
	}
	if !newer && l.announce() {
		l.examine()
		it.learned = l.confirm() || it.learned
	}
	if it.snap != nil && !it.knows(&f.Range) {
		// What a snapshot sees of the tree is the same in all states.
		own := *f
		own.State, own.Now = 0, it.view.Now
		it.snap.empties(it.tree, true).Add(it.tree.cmp, &own)
	}
}

// knows reports whether a fact about r is there for readers like it.
func (it *Iterator) knows(r *empties.Range) bool {
	f := it.Edge(false)
	if !r.FromStart {
		f = it.Within(r.Lo)
	}
	return f != nil && f.Covers(it.tree.cmp, r)
}

// learner makes one fact known, in three steps.
type learner struct {
	tree  *Tree
	mem   *memtable.MemTable // of the state that was read
	fact  empties.Fact
	parts []*empties.Fact // what examine leaves of fact
}

// announce is step L3: writers look at the fact from now on.
func (l *learner) announce() bool { return l.tree.empties.Announce(&l.fact) }

// A learner examines at most examineBase entries, and examineFactor for each that it passed over.
const examineBase, examineFactor = 8192, 8

// examine is step L4: it looks for entries that the learner did not see, because they are newer
// than its sequence number or in a memtable that followed that of its state. They leave parts of
// the fact, or none if there are too many of them, or if tables may have some.
func (l *learner) examine() {
	s := l.tree.Acquire() // after announce
	if s == nil {
		return
	}
	defer s.Unref()
	if s.flushed > l.fact.Seq || l.tree.mayHaveIngested(l.fact.Seq) {
		return
	}
	parts := []*empties.Fact{&l.fact}
	limit := examineBase + examineFactor*l.fact.Dead
	since, met := base.SeqNum(0), false // met: the memtable of the learner's state
	for i := -1; i < len(s.Sealed) && limit > 0; i++ {
		m := s.memTable(i)
		if m == l.mem {
			met, since = true, l.fact.Seq
		}
		if i >= 0 && met && s.Sealed[i].Last <= since {
			continue
		}
		m.Walk(m.Behind(since), func(t base.Trailer, key []byte, _ uint64) bool {
			limit--
			if t.Seq() > since && !t.Kind().IsTombstone() {
				parts = empties.Without(l.tree.cmp, parts, key)
			}
			return limit > 0
		})
	}
	if met && limit > 0 { // otherwise the memtable was flushed meanwhile
		l.parts = parts
	}
}

// confirm is step L5. It reports whether something is known.
func (l *learner) confirm() bool {
	return l.tree.empties.Confirm(l.tree.cmp, &l.fact, l.parts) && len(l.parts) > 0
}
