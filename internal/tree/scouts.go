package tree

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// A scout is an iterator of the background: it passes over deleted entries before a reader has to,
// and announces the empty ranges. After some number of deletions a writer sends one around the last
// deleted key; so the first look at a table that was emptied finds its last deletions only. A scout
// learns as other readers do, by the steps of package empties, and nothing depends on whether it
// comes.
//
// Where readers still pass over many entries, because they return again and again to keys that
// others delete, scouts are sent after few deletions, as long as such readers come. The work of
// scouts is in proportion to the deletions: each reads a bounded number of entries, and after a
// scout that learned no range, because of writers or an ingest beside it, some of the next ones are
// left out.
//
// In a follower a catch-up goes in place of scouts, once what it read is visible (ScoutReplayed).
//
// A flush, or the program, may have all processors. If a scout is due while another still waits,
// the writer goes in their place after its commit (ScoutNow), and reads no more than sweepPiece
// entries in each direction: so readers do not depend on a processor for the background.

// scoutBounds are numbers of deletions and entries. Builds that check invariants have small ones.
type scoutBounds struct {
	coarse, fine int64 // deletions for which a scout is sent, without such readers and with them
	most         int64 // a scout passes over so many entries for each deletion, in each direction
	passed       int   // dead entries of a move that make scouts come after few deletions
	looks        int32 // moves of readers between two scouts that make the second one needless
	enough       int   // scouts in a row that were not needed end those after few deletions
	credit       int32 // scouts after few deletions that a reader buys
}

var scouting = scoutingBounds()

func scoutingBounds() scoutBounds {
	if invariants.Enabled {
		return scoutBounds{coarse: 40, fine: 4, most: 4, passed: 4, looks: 2, enough: 4,
			credit: 16}
	}
	return scoutBounds{coarse: 4096, fine: 16, most: 32, passed: 128, looks: 2, enough: 16,
		credit: 1024}
}

// maxSkip bounds how many scouts are left out after scouts that learned nothing.
const maxSkip = 64

// scouts are those of a tree, one at a time.
type scouts struct {
	fine  atomic.Int32 // how many of those to come are sent after few deletions
	looks atomic.Int32 // of readers since the last one, some of them

	mu      sync.Mutex
	ended   chan struct{} // closed when the goroutine has ended
	key     []byte        // around which the next one looks; nil: there is none
	step    int64         // deletions since the one before
	working bool          // the goroutine exists
	closed  bool
	failed  int // scouts in a row that learned nothing
	skip    int // scouts to leave out
	inVain  int // scouts in a row that were not needed
}

// allScouts is those of t, from now on.
func (t *Tree) allScouts() *scouts {
	if t.scouts.Load() == nil {
		t.scouts.CompareAndSwap(nil, new(scouts))
	}
	return t.scouts.Load()
}

// noteReader takes what an iterator passed over, and how many known-empty ranges it used.
func (t *Tree) noteReader(dead, ranges int) {
	if dead < scouting.passed && t.scouts.Load() == nil {
		return
	}
	s := t.allScouts()
	fine := s.fine.Load()
	if fine > 0 && s.looks.Load() < scouting.looks {
		s.looks.Add(1)
	}
	if (dead >= scouting.passed || fine > 0 && ranges > 0) && fine < scouting.credit/2 {
		s.fine.Store(scouting.credit)
	}
}

// wantsScout reports whether there were enough deletions. Commit leader only.
func (t *Tree) wantsScout() bool { return t.enoughForScout(t.lead.mem.Unlooked()) }

// enoughForScout reports whether n deletions are enough.
func (t *Tree) enoughForScout(n int64) bool {
	if n < scouting.fine || n >= scouting.coarse {
		return n >= scouting.coarse
	}
	s := t.scouts.Load()
	return s != nil && s.fine.Load() > 0
}

// lastDeleted is the key of the last deletion of a batch, nil if it has none.
func lastDeleted(batch []byte) (last []byte) {
	for it := batchrepr.Read(batch); ; {
		_, kind, key, _, ok := it.Next()
		if !ok {
			return last
		}
		if kind == base.KindDelete {
			last = key
		}
	}
}

// sendScout has the background look around key. The comparer of a tree may be one that is called
// by its users' threads only: then there are no scouts. Commit leader only.
func (t *Tree) sendScout(key []byte) {
	n := t.lead.mem.Unlooked()
	// Not always after as many: of several places that are deleted from by turns, each gets scouts.
	t.lead.mem.Looked(rand.Int64N(1 + min(n, scouting.coarse)/8))
	if key == nil || t.cmp.Serial() {
		return
	}
	s := t.allScouts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.key != nil && (n < scouting.coarse || s.step >= lateSteps*scouting.coarse) {
		t.shared.Late.Store(t)
	}
	s.dueLocked(key, n)
	if !s.working {
		s.working, s.ended = true, make(chan struct{})
		go t.scoutAll(s)
	}
}

// endScouts waits for the scout under way, and has none come again.
func (t *Tree) endScouts() {
	s := t.allScouts()
	s.mu.Lock()
	s.closed = true
	ended := s.ended
	s.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// lateSteps is how many scouts after many deletions are due before a writer goes in their place.
const lateSteps = 4

// scoutAll scouts until there is nothing to do. A comparer may end the goroutine of a scout.
func (t *Tree) scoutAll(s *scouts) {
	for {
		s.mu.Lock()
		if s.key == nil || s.closed {
			s.working = false
			close(s.ended)
			s.mu.Unlock()
			return
		}
		key, step := s.takeLocked()
		s.mu.Unlock()
		if most := int(min(scouting.most*step, math.MaxInt32)); key != nil {
			_ = base.Alone(func() error { t.scoutAround(s, key, most); return nil })
		}
	}
}

// ScoutNow goes in place of a scout of t that is late, if t is Shared.Late. The caller leads no
// more.
func (t *Tree) ScoutNow() {
	if t.shared.Late.CompareAndSwap(t, nil) { // else another writer goes
		t.scoutDue(t.allScouts())
	}
}

// scoutDue goes as the scout that is due, if one is.
func (t *Tree) scoutDue(s *scouts) {
	s.mu.Lock()
	var key []byte
	var step int64
	if !s.closed && s.key != nil {
		key, step = s.takeLocked()
	}
	s.mu.Unlock()
	if key != nil {
		t.scoutAround(s, key, int(min(scouting.most*step, sweepPiece)))
	}
}

// ScoutReplayed is for a follower, which sends no scouts: it goes in place of one, after n
// deletions that are visible now and of which key was the last one, and reports whether these were
// enough. They are many at a time, so the scout is needed however often readers come.
func (t *Tree) ScoutReplayed(n int64, key []byte) bool {
	if t.cmp.Serial() || !t.enoughForScout(n) {
		return false
	}
	s := t.allScouts()
	s.looks.Store(0)
	s.mu.Lock()
	s.dueLocked(key, n)
	s.mu.Unlock()
	t.scoutDue(s)
	return true
}

// dueLocked sends the next scout to key, after n more deletions.
func (s *scouts) dueLocked(key []byte, n int64) {
	s.key = append(slices.Grow(s.key[:0], len(key)+1), key...) // not nil, empty as it may be
	s.step += n
}

// takeLocked takes the key that a scout is sent to; nil: this scout is left out.
func (s *scouts) takeLocked() (key []byte, step int64) {
	key, step = s.key, s.step
	s.key, s.step = nil, 0
	if s.skip > 0 {
		s.skip--
		return nil, 0
	}
	return key, step
}

// scoutAround is one scout.
func (t *Tree) scoutAround(s *scouts, key []byte, most int) {
	t.shared.Ops.Scouts.Add(1)
	passed, learned := t.scout(key, most)
	s.mu.Lock()
	defer s.mu.Unlock()
	if learned || passed < scouting.passed {
		s.failed = 0
	} else {
		s.failed++
		s.skip = min(1<<min(s.failed, 10), maxSkip)
	}
	s.spendLocked()
}

// spendLocked takes a scout off those that readers bought. There are no more where readers come as
// often as scouts: these pass over little, and learn themselves.
func (s *scouts) spendLocked() {
	if s.inVain++; s.looks.Swap(0) < scouting.looks {
		s.inVain = 0
	}
	if fine := s.fine.Load(); s.inVain >= scouting.enough {
		s.fine.CompareAndSwap(fine, 0)
	} else if fine > 0 {
		s.fine.CompareAndSwap(fine, fine-1)
	}
}

// scout looks from key on to the first entry that is visible, and from there back to the last one,
// over about so many others at most in each direction.
func (t *Tree) scout(key []byte, most int) (passed int, learned bool) {
	var it Iterator
	defer it.Close()
	defer t.catch(&it.err)
	t.Init(&it, &IterOptions{KeysOnly: true, NoFillCache: true, most: min(most, sweepPiece)})
	c := it.cursor
	if c == nil {
		return 0, false
	}
	ahead, found := it.sweep(c.SeekGE, key, most)
	if found {
		key = slices.Clone(c.Key())
	}
	learned = it.learned
	behind, _ := it.sweep(c.SeekLT, key, most)
	t.failOnPanic(c.Err())
	it.dead, it.hits = 0, 0 // readers are counted
	return ahead + behind, learned || it.learned
}

// keyOnly is the merge operator of a scout, which has use for keys alone. That of the program may
// read the database, and a follower's read may wait for the catch-up that goes as a scout.
var keyOnly = &mergeop.Operator{
	Name: "key only",
	Full: func(dst, _, _ []byte, _ [][]byte) ([]byte, error) { return dst, nil },
}

// sweepPiece is how many entries a scout passes over before it makes that known to readers that
// come meanwhile.
const sweepPiece = 8192

// sweep seeks key again as long as the move gave up behind a piece that it learned, and has not
// passed over most entries in all.
func (it *Iterator) sweep(seek func(key []byte) bool, key []byte, most int) (passed int,
	found bool) {
	begun, learned := it.dead, false
	for {
		it.learned = false
		before := it.dead
		found = seek(key)
		passed, learned = it.dead-begun, learned || it.learned
		if found || !it.learned || it.dead-before < it.most || passed >= most {
			it.learned = learned
			return passed, found
		}
	}
}
