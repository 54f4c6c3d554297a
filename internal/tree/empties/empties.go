// Package empties keeps known-empty ranges: ranges of user keys of a tree that are empty for
// certain readers. A cursor that passed many dead entries without a visible one has learned
// such a fact; later cursors go past all of them by one seek. Without facts, a queue costs every
// reader all messages that were taken before.
//
// A fact is about contents, not about files: flushes and compactions leave it true, and so do
// deletions. A write of anything else into its range cuts it. Facts are not stored.
//
// # What a fact says
//
// The learner of a Fact read the state with ordinal State, at sequence number Seq and time Now. The
// fact holds for each reader whose state, sequence number and time are not earlier (View): it would
// find nothing in the range itself. A state is earlier than another one that replaced it; so a
// snapshot that is pinned to an old state uses no fact of a later one.
//
// # Why it holds
//
// Every step below is one atomic load, store or compare-and-swap, and these have one total order.
//
//	writer                      learner                         reader
//	W1 entry into the memtable  L1 load state, sequence number  R1 load the state
//	W2 load the list; cut       L2 pass the dead entries        R2 load the sequence number
//	W3 publish the number       L3 announce the fact            R3 load the list
//	                            L4 look for newer entries
//	                            L5 confirm the fact
//
// A fact is wrong for a reader if the reader's state has a visible entry in the range. Let e be
// one, with a sequence number up to the reader's.
//
//  1. If the learner's state had e with a number up to the learner's, the learner passed e as dead:
//     what hid e hides it from later readers, too, or e went with it in a compaction. If it passed
//     e by another fact, that one was wrong for the learner as a reader.
//  2. If e came by a write that the learner did not see, it is newer than the learner's number, or
//     in a memtable that followed that of the learner's state. If W1 came before L4, the learner
//     finds e in a memtable and leaves e's key out; it learns nothing if e may be in a table. If W1
//     came after L4, W2 came after L3: the writer finds the fact, announced or confirmed, and cuts
//     it. Either was done before W3, or before the fact was confirmed. R2 came after W3, since the
//     reader sees e's number, and R3 after R2: the reader finds no fact that has e's key.
//  3. If e came by an ingest: Stop, before its tables are in a state, cuts facts, takes back what
//     is announced, and refuses to announce until Resume. From then on only learners announce whose
//     state has the tables; they saw e, or learn nothing since e is newer than their number.
//
// A follower's writer is the replay of another process's log. Its entries may go into a memtable
// that no state has yet, where L4 does not see them: Pause, before W1, refuses to announce until
// Resume, which comes after W3 and is for learners of the state of then. Until W3 entries are cut
// from facts, in any order. Entries of tables of another version are not cut: Clear, which also
// refuses to announce, takes all facts away before W3.
//
// The reader may load the list much later than its number (R3): what was written since is cut from
// facts, which does no harm, and a fact learned since holds for it by the same reasons.
//
// A snapshot's readers have facts of their own, too (Add). What is visible at an open snapshot is
// the same in each state: compactions keep it, writes and ingests are newer. So such a fact holds
// for as long as it has readers, and nothing cuts it, also where newer entries are in its range.
//
// The order R2, R3 matters, and W1, W2, W3, and L3, L4. Nobody waits: no step takes a lock.
package empties

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
)

// MaxFacts and MaxBytes bound the facts of a Set, with those that joined ones were made of, and
// their keys. Beyond them facts go that spare readers little, or are old.
const (
	MaxFacts = 32 << 10
	MaxBytes = 8 << 20
)

// maxLearners bounds the facts that are announced at a time.
const maxLearners = 8

// Range is the user keys from Lo to Hi.
type Range struct {
	Lo, Hi         []byte
	LoOpen, HiOpen bool // the key itself is not in the range
	// FromStart: all keys before Hi are in the range, and there is no Lo. ToEnd: all behind Lo.
	FromStart, ToEnd bool
}

// View is what a reader sees: entries up to a sequence number in a state, as of a time.
type View struct {
	State uint64 // the ordinal of the state
	Seq   base.SeqNum
	Now   uint64 // in seconds since 1970; in a fact 0: nothing in it had expired
}

// Fact says that a Range is empty for a View and all later ones. It is immutable.
type Fact struct {
	Range
	View
	Dead int // entries that the range spares a reader, an estimate
	// worth is Dead, and more the later the fact was learned: the least goes first.
	worth int
	// The range ends here because of a write: behind a key that was written.
	loCut, hiCut bool
	// wear is shared by the parts of a fact that writes cut; nil: none did since it was learned.
	wear *wear
	// was are facts about parts of the range, oldest first, for readers of earlier views.
	was []*Fact
}

// Set is the facts of one tree. The zero Set is empty. It is safe for concurrent use. Readers
// load one pointer, which lies on a cache line of its own.
type Set struct {
	_    [120]byte
	list atomic.Pointer[list]
	_    [120]byte
}

// list is the contents of a Set. It is immutable.
type list struct {
	facts
	announced []*Fact
	// since is the first state whose readers may announce; stopped: none may.
	since uint64
}

const stopped = math.MaxUint64

// load returns the list, never nil.
func (s *Set) load() (old, l *list) {
	if old = s.list.Load(); old == nil {
		return nil, &list{}
	}
	return old, old
}

// change replaces the list by what f makes of it, until no other change comes between; f returns
// nil to leave it.
func (s *Set) change(f func(l *list) *list) (changed bool) {
	for {
		old, l := s.load()
		next := f(l)
		if next == nil {
			return false
		}
		if s.list.CompareAndSwap(old, next) {
			return true
		}
	}
}

// Any reports whether there is anything to cut. A writer asks after its entries are in the
// memtable.
func (s *Set) Any() bool {
	l := s.list.Load()
	return l != nil && len(l.chunks)+len(l.announced) > 0
}

// Len is the number of facts.
func (s *Set) Len() int {
	_, l := s.load()
	return l.len()
}

// Find returns a fact that has key and holds for a reader of view v, or nil. The caller loaded v's
// sequence number before.
func (s *Set) Find(cmp *base.Comparer, key []byte, v *View) *Fact {
	l := s.list.Load()
	if l == nil {
		return nil
	}
	if at, found := l.search(cmp, key); found {
		return l.at(at).forView(v, func(r *Range) bool { return r.has(cmp, key) })
	}
	return nil
}

// Edge is Find of a fact with FromStart, or if end is set, of one with ToEnd.
func (s *Set) Edge(end bool, v *View) *Fact {
	l := s.list.Load()
	switch {
	case l == nil || len(l.chunks) == 0:
		return nil
	case end:
		c := l.chunks[len(l.chunks)-1]
		return c[len(c)-1].forView(v, func(r *Range) bool { return r.ToEnd })
	}
	return l.chunks[0][0].forView(v, func(r *Range) bool { return r.FromStart })
}

// forView returns f, or the latest fact that it was made of, if one holds for a reader of view v
// and has a range for which has is true.
func (f *Fact) forView(v *View, has func(r *Range) bool) *Fact {
	if f.holdsFor(v) && has(&f.Range) {
		return f
	}
	for i := len(f.was) - 1; i >= 0; i-- {
		if w := f.was[i]; w.holdsFor(v) && has(&w.Range) {
			return w
		}
	}
	return nil
}

func (f *Fact) holdsFor(v *View) bool {
	return f.State <= v.State && f.Seq <= v.Seq && f.Now <= v.Now
}

// endsBefore reports whether all keys of r are before key.
func (r *Range) endsBefore(cmp *base.Comparer, key []byte) bool {
	if r.ToEnd {
		return false
	}
	c := cmp.Cmp(r.Hi, key)
	return c < 0 || c == 0 && r.HiOpen
}

// startsBehind reports whether all keys of r are behind key.
func (r *Range) startsBehind(cmp *base.Comparer, key []byte) bool {
	if r.FromStart {
		return false
	}
	c := cmp.Cmp(r.Lo, key)
	return c > 0 || c == 0 && r.LoOpen
}

// has reports whether key is in r.
func (r *Range) has(cmp *base.Comparer, key []byte) bool {
	return !r.endsBefore(cmp, key) && !r.startsBehind(cmp, key)
}

// Empty reports whether r has no key for certain.
func (r *Range) Empty(cmp *base.Comparer) bool {
	if r.FromStart || r.ToEnd {
		return false
	}
	c := cmp.Cmp(r.Lo, r.Hi)
	return c > 0 || c == 0 && (r.LoOpen || r.HiOpen)
}

// before reports whether all keys of r are before those of o, and no key is in both.
func (r *Range) before(cmp *base.Comparer, o *Range) bool {
	if r.ToEnd || o.FromStart {
		return false
	}
	c := cmp.Cmp(r.Hi, o.Lo)
	return c < 0 || c == 0 && (r.HiOpen || o.LoOpen)
}

// meets reports whether r and o have a key in common, or no key may lie between them.
func (r *Range) meets(cmp *base.Comparer, o *Range) bool {
	apart := func(a, b *Range) bool {
		if a.ToEnd || b.FromStart {
			return false
		}
		c := cmp.Cmp(a.Hi, b.Lo)
		return c < 0 || c == 0 && a.HiOpen && b.LoOpen
	}
	return !apart(r, o) && !apart(o, r)
}

// startsAfter reports whether o begins before r.
func (r *Range) startsAfter(cmp *base.Comparer, o *Range) bool {
	if r.FromStart || o.FromStart {
		return !r.FromStart
	}
	c := cmp.Cmp(o.Lo, r.Lo)
	return c < 0 || c == 0 && r.LoOpen && !o.LoOpen
}

// stopsBefore reports whether o ends behind r.
func (r *Range) stopsBefore(cmp *base.Comparer, o *Range) bool {
	if r.ToEnd || o.ToEnd {
		return !r.ToEnd
	}
	c := cmp.Cmp(o.Hi, r.Hi)
	return c > 0 || c == 0 && r.HiOpen && !o.HiOpen
}

// Covers reports whether all keys of o are in r.
func (r *Range) Covers(cmp *base.Comparer, o *Range) bool {
	return !r.startsAfter(cmp, o) && !r.stopsBefore(cmp, o)
}

// Announce makes writers look at f, which readers do not use yet. It reports false if f cannot be
// learned now. Otherwise Confirm follows.
func (s *Set) Announce(f *Fact) bool {
	return s.change(func(l *list) *list {
		if f.State < l.since || len(l.announced) >= maxLearners {
			return nil
		}
		return &list{l.facts, append(slices.Clip(l.announced), f), l.since}
	})
}

// Confirm makes parts, which are f or what is left of it, known to readers, if no writer came into
// the range of f since it was announced. Without parts f is withdrawn.
func (s *Set) Confirm(cmp *base.Comparer, f *Fact, parts []*Fact) bool {
	return s.change(func(l *list) *list {
		i := slices.Index(l.announced, f)
		if i < 0 {
			return nil
		}
		next := &list{l.facts, slices.Delete(slices.Clone(l.announced), i, i+1), l.since}
		for _, p := range parts {
			next.facts = next.add(cmp, p)
		}
		return next
	})
}

// Add makes f known at once: the Set is of readers of one view.
func (s *Set) Add(cmp *base.Comparer, f *Fact) {
	s.change(func(l *list) *list {
		next := l.facts
		next.small = true
		return &list{next.add(cmp, f), nil, stopped}
	})
}

// Cut takes a key that is written out of all facts, and takes back those announced that have it. It
// reports whether there was one.
func (s *Set) Cut(cmp *base.Comparer, key []byte) bool {
	return s.change(func(l *list) *list {
		at, found := l.search(cmp, key)
		rest := l.announced
		if len(rest) > 0 {
			rest = slices.DeleteFunc(slices.Clone(rest), func(f *Fact) bool {
				return f.has(cmp, key)
			})
		}
		if !found && len(rest) == len(l.announced) {
			return nil
		}
		next := &list{l.facts, rest, l.since}
		if found {
			parts := l.at(at).cut(cmp, key, l.n >= maxFacts/piecesPart)
			next.facts = l.replace(at, place{at.chunk, at.i + 1}, parts...)
		}
		return next
	})
}

// Without cuts key out of parts, which are disjoint.
func Without(cmp *base.Comparer, parts []*Fact, key []byte) []*Fact {
	for i, f := range parts {
		if f.has(cmp, key) {
			return slices.Replace(parts, i, i+1, f.without(cmp, key, len(parts) >= maxParts)...)
		}
	}
	return parts
}

// A piece is a fact between two keys that were written. Messages of several priorities in an empty
// queue leave pieces with all that was deleted between them; a range that is filled again falls
// into as many pieces as there are writes, most of them without an entry. So there are pieces as
// long as there are few facts: their part of maxFacts, and maxParts in what one learner learns.
const piecesPart, maxParts = 8, 64

func (f *Fact) piece() bool { return f.loCut && f.hiCut }

// wear counts the writes that cut a fact, or a part of it. After most of them each part goes that
// is cut again: the range is being filled. Otherwise one that is filled in order is cut by each
// write, and one that is filled at random falls into pieces that spare a few entries each. A cut
// costs as much as tens of entries, so that learning the range anew costs an iterator less than the
// cuts cost the writers.
type wear struct {
	cuts atomic.Int64
	most int64 // cutsBase, and one more for each deadPerCut entries that the whole fact spared
}

const cutsBase, deadPerCut = 64, 32

// cut is what is left of f once key is written.
func (f *Fact) cut(cmp *base.Comparer, key []byte, crowded bool) []*Fact {
	w := f.wear
	if w == nil {
		w = &wear{most: int64(cutsBase + f.Dead/deadPerCut)}
	}
	if w.cuts.Add(1) > w.most {
		return nil
	}
	parts := f.without(cmp, key, crowded)
	for _, p := range parts {
		p.wear = w
	}
	return parts
}

// without is what is left of f without a key of its range: at most two facts, none of them a piece
// if it is crowded. How many entries a piece spares is not known: they are counted for the fact
// that it was cut from.
func (f *Fact) without(cmp *base.Comparer, key []byte, crowded bool) (parts []*Fact) {
	key = slices.Clone(key)
	left, right := *f, *f
	left.was, right.was = nil, nil // they may have key
	left.Hi, left.HiOpen, left.ToEnd, left.hiCut = key, true, false, true
	right.Lo, right.LoOpen, right.FromStart, right.loCut = key, true, false, true
	if !left.piece() && !right.piece() {
		left.Dead, right.Dead = (f.Dead+1)/2, (f.Dead+1)/2
	}
	for _, p := range []*Fact{&left, &right} {
		if p.Dead--; p.piece() {
			p.Dead, p.worth = 1, 0
		}
		if p.Dead > 0 && !p.Empty(cmp) && !(p.piece() && crowded) {
			parts = append(parts, p)
		}
	}
	return parts
}

// Pause takes announced ranges back, and refuses to announce until Resume. Facts stay.
func (s *Set) Pause() {
	s.change(func(l *list) *list { return &list{l.facts, nil, stopped} })
}

// Clear is Pause, and takes all facts away.
func (s *Set) Clear() {
	s.change(func(*list) *list { return &list{facts{}, nil, stopped} })
}

// Stop takes back announced ranges, and all facts that have a key from lo to hi, both inclusive,
// and refuses to announce until Resume. Tables with keys in that range are about to come.
func (s *Set) Stop(cmp *base.Comparer, lo, hi []byte) {
	r := Range{Lo: lo, Hi: hi}
	s.change(func(l *list) *list {
		from, _ := l.search(cmp, lo)
		to := from
		for to.chunk < len(l.chunks) && !r.before(cmp, &l.at(to).Range) {
			to = l.next(to)
		}
		return &list{l.replace(from, to), nil, stopped}
	})
}

// Resume lets readers of a state, and of later ones, announce again.
func (s *Set) Resume(state uint64) {
	s.change(func(l *list) *list { return &list{l.facts, l.announced, state} })
}
