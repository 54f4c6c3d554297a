package tree

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// setScouting has scouts come often while a test runs.
func setScouting(t *testing.T) {
	was := scouting
	scouting = scoutBounds{coarse: 256, fine: 32, most: 16, passed: 128, looks: 2, enough: 4,
		credit: 20}
	t.Cleanup(func() { scouting = was })
}

// noScouts keeps scouts away while a test runs.
func noScouts(t *testing.T) {
	was := scouting
	scouting.coarse, scouting.fine = math.MaxInt64, math.MaxInt64
	t.Cleanup(func() { scouting = was })
}

// restScouts waits until no scout is under way.
func restScouts(tree *Tree) {
	if s := tree.scouts.Load(); s != nil {
		s.mu.Lock()
		ended := s.ended
		s.mu.Unlock()
		if ended != nil {
			<-ended
		}
	}
}

// openWide is open with a memtable for all entries of a test.
func (h *house) openWide(cmp *base.Comparer) *Tree {
	tree := New(Options{Comparer: cmp, MemTableSize: 16 << 20}, h.Shared)
	tree.Start(1, nil, h.manifest.Current(base.DefaultKeyspace))
	return tree
}

// fill puts rows from up to to.
func (h *house) fill(t *testing.T, tree *Tree, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		h.put(t, tree, string(rowKey(i)), "v")
	}
}

// look is a reader's First. It returns how many dead entries it passed over.
func look(t *testing.T, tree *Tree, want []byte) (dead int) {
	t.Helper()
	var it Iterator
	tree.Init(&it, &IterOptions{})
	defer it.Close()
	if it.First() != (want != nil) || string(it.Key()) != string(want) {
		t.Fatalf("the first key is %q, %v, want %q", it.Key(), it.Err(), want)
	}
	return it.dead
}

// TestScoutsComeFirst: the first look at rows that were deleted passes over the last ones only.
func TestScoutsComeFirst(t *testing.T) {
	setScouting(t)
	const n = 6000
	up := func(i int) int { return i }
	for _, c := range []struct {
		name  string
		batch int
		order func(i int) int
		most  int64 // dead entries at the end, in numbers of deletions from scout to scout
	}{
		{"ascending", 1, up, 3}, {"descending", 1, func(i int) int { return n - 1 - i }, 3},
		{"in batches", 100, up, 3}, {"in large batches", n / 2, up, 3},
		{"from both ends", 1, func(i int) int {
			if i%2 == 0 {
				return i / 2
			}
			return n - 1 - i/2
		}, 20}, // several scouts in a row may go to the same end
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			tree := h.openWide(base.Bytewise)
			defer tree.Close()
			h.fill(t, tree, 0, n)
			for i := 0; i < n; i += c.batch {
				b := batchrepr.Init(nil)
				for j := i; j < i+c.batch; j++ {
					b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindDelete,
						rowKey(c.order(j)), nil)
				}
				if err := tree.Apply(b, h.last+1); err != nil {
					t.Fatal(err)
				}
				h.last += base.SeqNum(c.batch)
				h.Seqs.Publish(h.last)
				restScouts(tree)
			}
			if c.batch > int(scouting.coarse) { // the last scout came before its batch was visible
				tree.sendScout(rowKey(c.order(n - 1)))
				restScouts(tree)
			}
			if dead := look(t, tree, nil); int64(dead) > c.most*scouting.coarse {
				t.Errorf("the first look passed over %d of %d", dead, n)
			}
			if got := h.Ops.DeadPassed.Sum(); got > c.most*scouting.coarse {
				t.Errorf("%d dead entries are counted, as if readers had passed them", got)
			}
		})
	}
}

// TestScoutsComeOften: where readers come again and again to rows of which the first are deleted
// between their looks, they pass over few. When no reader comes any more, or readers keep up with
// the deletions themselves, scouts come seldom again.
func TestScoutsComeOften(t *testing.T) {
	setScouting(t)
	h := newHouse(t)
	tree := h.openWide(base.Bytewise)
	defer tree.Close()
	const n, every = 8000, 200
	h.fill(t, tree, 0, n+1)
	at := 0
	remove := func(to int) {
		for ; at < to; at++ {
			h.delete(t, tree, rowKey(at))
			restScouts(tree)
		}
	}
	worst := 0
	for remove(every); at < n/2; remove(at + every) {
		if dead := look(t, tree, rowKey(at)); at > every {
			worst = max(worst, dead)
		}
	}
	if limit := int(2 * scouting.fine); worst > limit {
		t.Errorf("a reader passed over %d, at most %d are for it", worst, limit)
	}
	fine := &tree.scouts.Load().fine
	if fine.Load() == 0 {
		t.Error("scouts come seldom")
	}
	remove(at + int(2*scouting.fine)*int(scouting.credit))
	if fine.Load() != 0 {
		t.Error("scouts come often although nobody reads")
	}
	remove(at + every)
	look(t, tree, rowKey(at))
	for fine.Load() > 0 && at < n {
		look(t, tree, rowKey(at))
		remove(at + 1)
	}
	if fine.Load() != 0 {
		t.Error("scouts come often although readers keep up")
	}
}

// busy has the goroutine of scouts wait for a processor as long as a test runs, and h's writers go
// in place of scouts that are late.
func busy(tree *Tree) {
	s := tree.allScouts()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working, s.ended = true, make(chan struct{})
	close(s.ended)
}

// TestScoutsAreLate: while the background has no processor, writers look in its place, and so
// readers pass over few deleted entries. The first look at much that was deleted is short, too.
func TestScoutsAreLate(t *testing.T) {
	setScouting(t)
	h := newHouse(t)
	tree := h.openWide(base.Bytewise)
	defer tree.Close()
	const n, every = 9000, 200
	h.fill(t, tree, 0, n+1)
	busy(tree)
	at, went := 0, 0
	remove := func(to int) {
		for ; at < to; at++ {
			h.delete(t, tree, rowKey(at))
			if late := h.Late.Load(); late != nil {
				before := h.Ops.Scouts.Sum()
				late.ScoutNow()
				if h.Ops.Scouts.Sum() > before {
					went++
				}
			}
		}
	}
	worst := 0
	for remove(every); at < n/3; remove(at + every) {
		if dead := look(t, tree, rowKey(at)); at > every {
			worst = max(worst, dead)
		}
	}
	if limit := int(4 * scouting.fine); worst > limit {
		t.Errorf("a reader passed over %d, at most %d are for it", worst, limit)
	}
	tree.allScouts().fine.Store(0)
	remove(n)
	if dead, limit := look(t, tree, rowKey(n)), int((lateSteps+3)*scouting.coarse); dead > limit {
		t.Errorf("the first look passed over %d, at most %d are for it", dead, limit)
	}
	if went == 0 {
		t.Error("no writer went")
	}
	// A writer does not go far at a time.
	const many = 3 * sweepPiece
	h.fill(t, tree, n+1, n+many)
	for i := range many {
		h.delete(t, tree, rowKey(n+i))
	}
	tree.ScoutNow()
	// The scout was sent to one of the last keys, and goes to the end, too.
	if dead := look(t, tree, nil); dead < many-sweepPiece-int(2*scouting.coarse) {
		t.Errorf("a writer passed over %d", many-dead)
	}
	// One of a tree that is closed meanwhile does not go, and one that comes second neither.
	h.Late.Store(tree)
	before := h.Ops.Scouts.Sum()
	tree.ScoutNow()
	tree.ScoutNow()
	tree.Close()
	h.Late.Store(tree)
	tree.ScoutNow()
	if got := h.Ops.Scouts.Sum() - before; got > 1 || h.Late.Load() != nil {
		t.Errorf("%d scouts", got)
	}
}

// TestScoutsInVain: scouts that learn nothing become rare, and later ones learn again.
func TestScoutsInVain(t *testing.T) {
	setScouting(t)
	h := newHouse(t)
	tree := h.openWide(base.Bytewise)
	defer tree.Close()
	const n = 20000
	h.fill(t, tree, 0, n)
	tree.PauseLearning()
	came, sent := 0, 0
	for i := range n / 2 {
		before := tree.allScouts().skip
		h.delete(t, tree, rowKey(i))
		restScouts(tree)
		if s := tree.allScouts(); s.skip > before {
			came++
		} else if s.skip < before {
			sent++
		}
	}
	if came == 0 || came > 6 || sent == 0 {
		t.Errorf("%d scouts came, %d were left out", came, sent)
	}
	tree.ResumeLearning()
	for i := range n / 2 {
		h.delete(t, tree, rowKey(n/2+i))
		restScouts(tree)
	}
	if tree.EmptyRanges() == 0 || tree.allScouts().failed > 0 {
		t.Errorf("%d known-empty ranges, %d scouts in vain", tree.EmptyRanges(),
			tree.allScouts().failed)
	}
}

// TestScoutsPassMuch: a scout passes over as many entries as it may, and the next one goes on
// behind them.
func TestScoutsPassMuch(t *testing.T) {
	noScouts(t)
	h := newHouse(t)
	tree := h.openWide(base.Bytewise)
	defer tree.Close()
	const n, most = 2000, 300
	h.fill(t, tree, 0, n)
	for i := range n {
		h.delete(t, tree, rowKey(i))
	}
	for i, learned := 0, true; learned; i++ {
		var passed int
		if passed, learned = tree.scout(rowKey(n/2), most); passed > 2*(most+100) || i > n/most {
			t.Fatalf("scout %d passed over %d, learned %v", i, passed, learned)
		}
	}
	if dead := look(t, tree, nil); dead > 100 {
		t.Errorf("a reader passed over %d", dead)
	}
}

// TestScoutsGoOnce: a scout that came to the end does not look again, although readers beside it
// know of the range by later deletions, which the scout does not see.
func TestScoutsGoOnce(t *testing.T) {
	noScouts(t)
	h := newHouse(t)
	tree := h.openWide(base.Bytewise)
	defer tree.Close()
	const n = 1000
	h.fill(t, tree, 0, n+100)
	for i := range n {
		h.delete(t, tree, rowKey(i))
	}
	var it Iterator
	tree.Init(&it, &IterOptions{most: 2 * n})
	defer it.Close()
	for i := n; i < n+90; i++ {
		h.delete(t, tree, rowKey(i))
	}
	look(t, tree, rowKey(n+90))
	if passed, _ := it.sweep(it.cursor.SeekLT, rowKey(n), 100*n); passed > n {
		t.Errorf("it passed over %d of %d", passed, n)
	}
}

// TestScoutsOfCatchUps: a catch-up that goes as a scout does not wait for a catch-up, as readers
// do, the program's merge operator among them, and does not count as a reader, for whom there are
// more of them.
func TestScoutsOfCatchUps(t *testing.T) {
	noScouts(t)
	h := newHouse(t)
	demand := NewDemand()
	h.Seqs.Demand = demand
	tree := h.openWide(base.Bytewise)
	defer tree.Close()
	const n = 1000
	h.fill(t, tree, 0, n)
	for i := range n {
		h.delete(t, tree, rowKey(i))
	}
	h.last++
	if err := tree.Add(h.last, base.KindMerge, rowKey(n), nil); err != nil {
		t.Fatal(err)
	}
	h.Seqs.Publish(h.last)
	tree.SetMerge(&mergeop.Operator{Full: func(_, _, _ []byte, _ [][]byte) ([]byte, error) {
		return nil, tree.present(nil, 0)
	}}, func(*mergeop.Operator) bool { return true })
	scouting.coarse = n
	demand.Expire()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if !tree.ScoutReplayed(n, rowKey(n-1)) {
			t.Error("it did not look")
		}
	}()
	select {
	case <-looked:
	case <-demand.Wanted:
		t.Error("the catch-up waits for itself")
	}
	if demand.Take() {
		t.Error("the catch-up is a reader")
	}
	demand.End()
	<-looked
	if tree.EmptyRanges() == 0 {
		t.Error("it learned nothing")
	}
}

// TestScoutsAtTheEnd: a tree that is closed or dropped waits for the scout under way, and has none
// come again.
func TestScoutsAtTheEnd(t *testing.T) {
	setScouting(t)
	for name, end := range map[string]func(*Tree){
		"closed": (*Tree).Close, "dropped": (*Tree).Drop,
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			reached, gate := make(chan struct{}, 1), make(chan struct{})
			cmp := &base.Comparer{Name: "gate", Compare: func(a, b []byte) int {
				if armed.Load() {
					select {
					case reached <- struct{}{}:
					default:
					}
					<-gate
				}
				return slices.Compare(a, b)
			}, EqualIsBytewise: true}
			h := newHouse(t)
			tree := h.openWide(cmp)
			for i := range 4 * int(scouting.coarse) {
				h.put(t, tree, fmt.Sprint(i), "v")
			}
			armed.Store(true)
			h.last += base.SeqNum(scouting.coarse)
			for i := range scouting.coarse {
				key := fmt.Append(nil, i)
				seq := h.last - base.SeqNum(scouting.coarse-i) + 1
				if err := tree.Add(seq, base.KindDelete, key, nil); err != nil {
					t.Fatal(err)
				}
			}
			<-reached
			var ended atomic.Bool
			done := make(chan struct{})
			go func() { end(tree); ended.Store(true); close(done) }()
			for range 1000 {
				runtime.Gosched()
			}
			if ended.Load() {
				t.Error("it did not wait for the scout")
			}
			armed.Store(false)
			close(gate)
			<-done
			if s := tree.scouts.Load(); s.working || !s.closed {
				t.Errorf("working %v, closed %v", s.working, s.closed)
			}
			tree.Close()
		})
	}
}

// TestScoutsMeetAPanic: a comparer that panics in a scout makes the database read-only.
func TestScoutsMeetAPanic(t *testing.T) {
	setScouting(t)
	var armed atomic.Bool
	cmp := &base.Comparer{Name: "panics", Compare: func(a, b []byte) int {
		if armed.Load() {
			panic("no order")
		}
		return slices.Compare(a, b)
	}, EqualIsBytewise: true}
	h := newHouse(t)
	tree := h.openWide(cmp)
	defer tree.Close()
	h.fill(t, tree, 0, 1000)
	var it Iterator
	tree.Init(&it, &IterOptions{}) // orders the memtable
	it.Close()
	armed.Store(true)
	for i := range scouting.coarse {
		h.delete(t, tree, rowKey(int(i)))
	}
	restScouts(tree)
	if h.failed == nil {
		t.Error("nobody is told of the panic")
	}
}

// TestNoScoutsOnCallersThreads: a comparer of the callers' threads is not called by scouts.
func TestNoScoutsOnCallersThreads(t *testing.T) {
	setScouting(t)
	cmp := &base.Comparer{Name: "serial", Compare: slices.Compare[[]byte], EqualIsBytewise: true,
		Interrupted: func() bool { return false }}
	h := newHouse(t)
	tree := h.openWide(cmp)
	defer tree.Close()
	h.fill(t, tree, 0, 600)
	for i := range 600 {
		h.delete(t, tree, rowKey(i))
	}
	if tree.scouts.Load() != nil {
		t.Error("scouts were sent")
	}
}
