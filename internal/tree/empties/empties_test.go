package empties

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// cmp is one under which different bytes are equal.
var cmp = &base.Comparer{Name: "caseless", Compare: func(a, b []byte) int {
	return strings.Compare(strings.ToLower(string(a)), strings.ToLower(string(b)))
}}

// check compares the sums of l with its facts.
func (l *facts) check(t *testing.T) {
	t.Helper()
	var sum facts
	for _, c := range l.chunks {
		if len(c) == 0 || len(c) > maxChunk {
			t.Fatalf("a chunk of %d", len(c))
		}
		for _, f := range c {
			sum.count(f, 1)
		}
	}
	if sum.n != l.n || sum.bytes != l.bytes || l.n > maxFacts || l.bytes > maxBytes {
		t.Fatalf("%d facts of %d bytes, counted %d of %d", sum.n, sum.bytes, l.n, l.bytes)
	}
}

const keys = 60

func key(rng *rand.Rand, i int) []byte {
	k := fmt.Sprintf("k%02d", i)
	if rng.IntN(2) == 0 {
		k = strings.ToUpper(k)
	}
	return []byte(k)
}

func text(f *Fact) string {
	return fmt.Sprintf("%s %v %v - %s %v %v", f.Lo, f.LoOpen, f.FromStart, f.Hi, f.HiOpen, f.ToEnd)
}

// covered lists the keys that r has.
func covered(rng *rand.Rand, r *Range) (is []int) {
	for i := range keys {
		if r.has(cmp, key(rng, i)) {
			is = append(is, i)
		}
	}
	return is
}

// compare looks at all facts, where the keys were written at sequence numbers.
func (s *Set) compare(t *testing.T, rng *rand.Rand, written *[keys]base.SeqNum) error {
	_, l := s.load()
	all := slices.Concat(l.chunks...)
	l.check(t)
	for _, end := range []bool{false, true} {
		latest := &View{State: math.MaxUint64, Seq: base.MaxSeqNum, Now: math.MaxUint64}
		var want *Fact
		for _, f := range all {
			if end && f.ToEnd || !end && f.FromStart {
				want = f
			}
		}
		if got := s.Edge(end, latest); got != want {
			return fmt.Errorf("%v: at the edge %v, not %v", end, got, want)
		}
	}
	for j, f := range all {
		if f.FromStart && j > 0 || f.ToEnd && j < len(all)-1 {
			return fmt.Errorf("%q has %d before and %d behind it", text(f), j, len(all)-1-j)
		}
		if f.Empty(cmp) || j > 0 && !all[j-1].before(cmp, &f.Range) {
			return fmt.Errorf("%q after %q", text(f), text(all[j-1]))
		}
		for _, w := range f.was {
			for _, i := range covered(rng, &w.Range) {
				if written[i] > w.Seq || !f.has(cmp, key(rng, i)) {
					return fmt.Errorf("%q was %q, which has key %d", text(f), text(w), i)
				}
			}
		}
		for _, i := range covered(rng, &f.Range) {
			if written[i] > f.Seq {
				return fmt.Errorf("%q has key %d", text(f), i)
			}
			v := View{State: f.State, Seq: f.Seq, Now: f.Now}
			if got := s.Find(cmp, key(rng, i), &v); got != f {
				return fmt.Errorf("key %d is in %q, found %v", i, text(f), got)
			}
		}
	}
	return nil
}

// TestSetModel compares a Set with the numbers of the last write to each key: no fact has a key
// that was written after it was announced, and facts are disjoint.
func TestSetModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	for round := range seed.Scale(10, 30, 300) {
		s := new(Set)
		written := [keys]base.SeqNum{}
		type open struct {
			f     *Fact
			stale bool
		}
		var open1 []*open
		seq := base.SeqNum(1)
		for step := range 200 {
			switch rng.IntN(6) {
			case 0, 1:
				i := rng.IntN(keys)
				seq++
				written[i] = seq
				for _, o := range open1 {
					o.stale = o.stale || o.f.has(cmp, key(rng, i))
				}
				if s.Any() {
					s.Cut(cmp, key(rng, i))
				}
			case 2, 3:
				a, b := rng.IntN(keys), rng.IntN(keys)
				f := &Fact{Range: Range{key(rng, min(a, b)), key(rng, max(a, b)), rng.IntN(2) == 0,
					rng.IntN(2) == 0, rng.IntN(8) == 0, rng.IntN(8) == 0},
					View: View{Seq: seq, State: uint64(rng.IntN(3))}, Dead: rng.IntN(1000)}
				if f.Empty(cmp) {
					continue
				}
				if s.Announce(f) {
					open1 = append(open1, &open{f: f})
				} else if len(open1) < maxLearners {
					t.Fatal("not announced")
				}
			case 4:
				if len(open1) == 0 {
					continue
				}
				i := rng.IntN(len(open1))
				o := open1[i]
				open1 = append(open1[:i:i], open1[i+1:]...)
				parts := []*Fact{o.f}
				for _, k := range rng.Perm(keys) {
					if written[k] > o.f.Seq && o.f.has(cmp, key(rng, k)) || rng.IntN(50) == 0 {
						parts = Without(cmp, parts, key(rng, k))
					}
				}
				if ok := s.Confirm(cmp, o.f, parts); ok == o.stale {
					t.Fatalf("confirmed %v, stale %v", ok, o.stale)
				}
			case 5:
				if rng.IntN(10) > 0 {
					continue
				}
				a, b := rng.IntN(keys), rng.IntN(keys)
				lo, hi := min(a, b), max(a, b)
				s.Stop(cmp, key(rng, lo), key(rng, hi))
				seq++
				for i := lo; i <= hi; i++ {
					written[i] = seq
				}
				for _, o := range open1 {
					o.stale = true
				}
				f := &Fact{Range: Range{Lo: key(rng, 1), Hi: key(rng, 2)}}
				if s.Announce(f) {
					t.Fatal("announced while learning was stopped")
				}
				s.Resume(0)
			}
			if err := s.compare(t, rng, &written); err != nil {
				t.Fatalf("round %d step %d: %v", round, step, err)
			}
			for i := range keys {
				f := s.Find(cmp, key(rng, i), &View{State: 9, Seq: seq})
				if f != nil && !f.has(cmp, key(rng, i)) {
					t.Fatalf("key %d is found in %q", i, text(f))
				}
			}
		}
	}
}

// TestFactHoldsFor: a fact is for readers whose state, sequence number and time are not earlier.
func TestFactHoldsFor(t *testing.T) {
	f := &Fact{Range: Range{Lo: []byte("a"), Hi: []byte("c")}, View: View{5, 50, 500}}
	s := new(Set)
	if !s.Announce(f) || !s.Confirm(cmp, f, []*Fact{f}) {
		t.Fatal("not learned")
	}
	for _, c := range []struct {
		v    View
		want bool
	}{
		{View{5, 50, 500}, true}, {View{6, 60, 600}, true},
		{View{4, 50, 500}, false}, {View{5, 49, 500}, false}, {View{5, 50, 499}, false},
	} {
		if got := s.Find(cmp, []byte("B"), &c.v) != nil; got != c.want {
			t.Errorf("%v: found %v", c.v, got)
		}
	}
}

// TestLearningStops: after Stop, Pause and Clear an announced range is not confirmed, and Announce
// does nothing until Resume; afterwards it does nothing for readers of a state before Resume's.
func TestLearningStops(t *testing.T) {
	for name, stop := range map[string]func(s *Set){
		"Stop": func(s *Set) { s.Stop(cmp, []byte("x"), []byte("y")) }, "Pause": (*Set).Pause,
		"Clear": (*Set).Clear,
	} {
		s := new(Set)
		learned := &Fact{Range: Range{Lo: []byte("a"), Hi: []byte("c")}, View: View{State: 5}}
		early := &Fact{Range: Range{Lo: []byte("p"), Hi: []byte("q")}, View: View{State: 5}}
		late := &Fact{Range: early.Range, View: View{State: 6}}
		if !s.Announce(learned) || !s.Confirm(cmp, learned, []*Fact{learned}) ||
			!s.Announce(early) {
			t.Fatal("nothing is learned")
		}
		stop(s)
		if s.Confirm(cmp, early, []*Fact{early}) {
			t.Errorf("%s: what was announced before is confirmed", name)
		}
		if s.Announce(early) || s.Announce(late) {
			t.Errorf("%s: something is announced", name)
		}
		if kept := s.Len() == 1; kept != (name != "Clear") {
			t.Errorf("%s: the fact of before is kept: %v", name, kept)
		}
		s.Resume(6)
		if s.Announce(early) || !s.Announce(late) {
			t.Errorf("%s: after Resume readers of the state before announce, or no others", name)
		}
	}
}

// setBounds lowers the bounds while a test runs.
func setBounds(t *testing.T, facts, bytes int) {
	maxFacts, maxBytes = facts, bytes
	t.Cleanup(func() { maxFacts, maxBytes = MaxFacts, MaxBytes })
}

// TestSetIsBounded: there are never more facts than maxFacts, however they come: learned apart,
// or cut in two by writes. A range that is filled again leaves few.
func TestSetIsBounded(t *testing.T) {
	setBounds(t, 256, MaxBytes)
	s := new(Set)
	k := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	learn := func(from, to, dead int) {
		f := &Fact{Range: Range{Lo: k(from), Hi: k(to), HiOpen: true}, Dead: dead}
		if !s.Announce(f) || !s.Confirm(cmp, f, []*Fact{f}) {
			t.Fatal("not learned")
		}
	}
	learn(0, 15, 10000)
	for i := 1; i < 3*maxFacts; i++ {
		learn(20*i, 20*i+15, 15)
		if s.Len() > maxFacts {
			t.Fatalf("%d facts", s.Len())
		}
	}
	if s.Find(cmp, k(5), &View{}) == nil {
		t.Error("the most useful one is gone")
	}
	s.Cut(cmp, k(0))
	for i := range 3 * maxFacts {
		s.Cut(cmp, k(20*i+7))
		if s.Len() > maxFacts {
			t.Fatalf("%d facts after cuts", s.Len())
		}
	}
	for i := range 60 * maxFacts {
		s.Cut(cmp, k(i))
	}
	pieces := maxFacts / piecesPart
	if s.Len() > pieces+1 { // the first one spares more than there are keys
		t.Errorf("%d facts are left of ranges that were filled", s.Len())
	}
	learn(0, 1000, 1000)
	most := 0
	for _, i := range rand.Perm(1000) {
		s.Cut(cmp, k(i))
		most = max(most, s.Len())
	}
	if most > pieces+2 || s.Len() > pieces+2 {
		t.Errorf("%d facts of one range, at the end %d", most, s.Len())
	}
}

// TestSetOfLongKeys: the bytes of keys are bounded, too.
func TestSetOfLongKeys(t *testing.T) {
	setBounds(t, MaxFacts, 100<<10)
	s := new(Set)
	for i := range 1000 {
		lo := append(fmt.Appendf(nil, "k%06d", i), make([]byte, 1000)...)
		f := &Fact{Range: Range{Lo: lo, Hi: append(lo[:8:8], "x"...), HiOpen: true}, Dead: 100}
		if !s.Announce(f) || !s.Confirm(cmp, f, []*Fact{f}) {
			t.Fatal("not learned")
		}
		_, l := s.load()
		l.check(t)
	}
	if n := s.Len(); n < 50 || n > 100 {
		t.Errorf("%d facts", n)
	}
}

// TestManyFacts: each of many facts is found, as they come in any order and are cut.
func TestManyFacts(t *testing.T) {
	s := new(Set)
	const n = 10000
	k := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	for _, i := range rng.Perm(n) {
		f := &Fact{Range: Range{Lo: k(10 * i), Hi: k(10*i + 8), HiOpen: true}, Dead: 64}
		if !s.Announce(f) || !s.Confirm(cmp, f, []*Fact{f}) {
			t.Fatal("not learned")
		}
	}
	_, l := s.load()
	l.check(t)
	if s.Len() != n || len(l.chunks) > 4*n/maxChunk {
		t.Errorf("%d facts in %d chunks", s.Len(), len(l.chunks))
	}
	for _, i := range rng.Perm(n)[:n/2] {
		s.Cut(cmp, k(10*i+4))
	}
	_, l = s.load()
	l.check(t)
	for i := range n {
		for j := range 10 {
			f := s.Find(cmp, k(10*i+j), &View{})
			if f != nil && !f.has(cmp, k(10*i+j)) || f == nil && j != 4 && j < 8 {
				t.Fatalf("key %d of %d: %v", j, i, f)
			}
		}
	}
}

// TestFactsOfBefore: a range that grows is known to readers of earlier views as far as it was then,
// or some times as long before; a write cuts it for them, too.
func TestFactsOfBefore(t *testing.T) {
	s := new(Set)
	k := func(i int) []byte { return fmt.Appendf(nil, "k%09d", i) }
	const step, n = 100, 3000
	for i := range n {
		f := &Fact{Range: Range{Lo: k(max(step*i-5, 0)), Hi: k(step * (i + 1)), HiOpen: true},
			View: View{Seq: base.SeqNum(step * (i + 1))}, Dead: step}
		if !s.Announce(f) || !s.Confirm(cmp, f, []*Fact{f}) {
			t.Fatal("not learned")
		}
		_, l := s.load()
		l.check(t)
		if l.n > 20 {
			t.Fatalf("after %d one range is of %d facts", i, l.n)
		}
		if i%100 != 99 {
			continue
		}
		for ago := 1; ago < i/8; ago *= 2 {
			seq := step * (i + 1 - ago)
			f := s.Find(cmp, k(5), &View{Seq: base.SeqNum(seq)})
			if f == nil || cmp.Cmp(f.Hi, k(seq-5*step*ago)) < 0 || f.Seq > base.SeqNum(seq) {
				t.Fatalf("after %d, %d before: %v", i, ago, f)
			}
		}
	}
	s.Cut(cmp, k(500))
	for seq := range step * n {
		for _, i := range []int{499, 500, 501} {
			f := s.Find(cmp, k(i), &View{Seq: base.SeqNum(seq)})
			if f != nil && f.has(cmp, k(500)) {
				t.Fatalf("the reader at %d finds %s", seq, text(f))
			}
		}
	}
}

// TestRefilledRangeGoes: writes that fill a range again, in order or at random, cut its fact a
// number of times in proportion to the entries that it spares; the writes after these find no fact.
// One that is filled in order and learned again in between stays, and so does its part before the
// first write.
func TestRefilledRangeGoes(t *testing.T) {
	const dead = 64 << 10
	k := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	fill := func(order []int, learned bool) (s *Set, cuts int) {
		s = new(Set)
		learn := func(from, spares int) {
			f := &Fact{Range: Range{Lo: k(from), Hi: k(2 * dead), HiOpen: true}, Dead: spares}
			if !s.Announce(f) || !s.Confirm(cmp, f, []*Fact{f}) {
				t.Fatal("not learned")
			}
		}
		learn(0, dead)
		for n, i := range order {
			if s.Cut(cmp, k(i)) {
				cuts++
			}
			if learned && n%500 == 0 {
				learn(i+1, 1)
			}
		}
		return s, cuts
	}
	const first, most = 1000, cutsBase + dead/deadPerCut
	inOrder := make([]int, dead-first)
	for i := range inOrder {
		inOrder[i] = first + i
	}
	knows := func(s *Set, i int) bool { return s.Find(cmp, k(i), &View{}) != nil }

	s, cuts := fill(inOrder, false)
	if cuts > most+1 || knows(s, dead) || !knows(s, first/2) {
		t.Errorf("in order: %d writes cut, want %d at most; known behind them: %v, before: %v",
			cuts, most+1, knows(s, dead), knows(s, first/2))
	}
	s, cuts = fill(rand.Perm(dead), false)
	if cuts > 2*most+2 || s.Len() > most+2 {
		t.Errorf("at random: %d writes cut, want %d at most; %d facts", cuts, 2*most+2, s.Len())
	}
	few := inOrder[:dead/4]
	s, cuts = fill(few, true)
	if cuts != len(few) || !knows(s, dead) || !knows(s, first/2) {
		t.Errorf("learned again: %d of %d writes cut; known behind them: %v, before: %v", cuts,
			len(few), knows(s, dead), knows(s, first/2))
	}
}

// BenchmarkCutAtRandom fills a known-empty range again at random.
func BenchmarkCutAtRandom(b *testing.B) {
	const width = 100_000
	ks := make([][]byte, width)
	for i, o := range rand.New(rand.NewPCG(1, 2)).Perm(width) {
		ks[o] = fmt.Appendf(nil, "k%07d", i)
	}
	b.ReportAllocs()
	s, i := new(Set), 0
	for b.Loop() {
		if i %= width; i == 0 {
			s = new(Set)
			f := &Fact{Range: Range{FromStart: true, ToEnd: true}, Dead: width}
			s.Announce(f)
			s.Confirm(base.Bytewise, f, []*Fact{f})
		}
		s.Cut(base.Bytewise, ks[i])
		i++
	}
}

// BenchmarkCutInOrder fills 1,000 known-empty ranges again, key by key.
func BenchmarkCutInOrder(b *testing.B) {
	const ranges, width = 1000, 1000
	k := func(i int) []byte { return fmt.Appendf(nil, "k%07d", i) }
	order := base.Bytewise
	var ks [][]byte
	for i := range ranges * width {
		ks = append(ks, k(i))
	}
	b.ReportAllocs()
	s, i := new(Set), 0
	for b.Loop() {
		if i %= len(ks); i == 0 {
			b.StopTimer()
			s = new(Set)
			for r := range ranges {
				f := &Fact{Range: Range{Lo: ks[r*width], Hi: ks[r*width+width-1]}, Dead: width}
				s.Announce(f)
				s.Confirm(order, f, []*Fact{f})
			}
			b.StartTimer()
		}
		s.Cut(order, ks[i])
		i++
	}
}
