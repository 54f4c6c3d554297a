package rangedel

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// newest is what Newest should be, by looking at every tombstone.
func newest(cmp *base.Comparer, ts []Tombstone, key []byte, at base.SeqNum) (seq base.SeqNum) {
	for _, t := range ts {
		if cmp.Cmp(t.Start, key) <= 0 && cmp.Cmp(key, t.Limit) < 0 && t.Seq <= at {
			seq = max(seq, t.Seq)
		}
	}
	return seq
}

// draw makes tombstones over keys of one or two letters, with sequence numbers up to maxSeq,
// some of them empty or the wrong way round.
const maxSeq = 40

func draw(rng *rand.Rand, n int) (ts []Tombstone) {
	key := func() []byte {
		k := []byte{'a' + byte(rng.IntN(8)), 'a' + byte(rng.IntN(4))}
		return k[:rng.IntN(3)]
	}
	for range n {
		ts = append(ts, Tombstone{key(), key(), 1 + base.SeqNum(rng.IntN(maxSeq))})
	}
	return ts
}

// keys are all that draw may draw, and one behind them.
func keys() (all [][]byte) {
	all = append(all, []byte{})
	for a := range byte(8) {
		all = append(all, []byte{'a' + a})
		for b := range byte(4) {
			all = append(all, []byte{'a' + a, 'a' + b})
		}
	}
	return append(all, []byte("z"))
}

// single makes a List of one tombstone, nil if it covers nothing.
func single(cmp *base.Comparer, t Tombstone) *List { return NewestOf(cmp, []Tombstone{t}) }

func mergeAll(cmp *base.Comparer, ts []Tombstone) *List {
	var lists []*List
	for _, t := range ts {
		lists = append(lists, single(cmp, t))
	}
	return Merge(cmp, lists...)
}

// check wants l to be well formed and to answer as the tombstones do.
func check(t *testing.T, cmp *base.Comparer, l *List, ts []Tombstone, ats []base.SeqNum) {
	t.Helper()
	if l != nil {
		again, ok := New(cmp, slices.Clone(l.frags))
		if !ok || len(again.frags) != len(l.frags) || again.count != l.count ||
			again.bytes != l.bytes {
			t.Fatalf("malformed: %v", l.frags)
		}
	}
	for _, at := range ats {
		for _, key := range keys() {
			if got, want := l.Newest(key, at), newest(cmp, ts, key, at); got != want {
				t.Fatalf("%v of %v: %q at %d: %d, want %d", l.Fragments(), ts, key, at, got, want)
			}
			s := l.SpanAt(key, at)
			if s.Start != nil && cmp.Cmp(s.Start, key) > 0 || s.Limit != nil &&
				cmp.Cmp(key, s.Limit) >= 0 {
				t.Fatalf("the span %v does not have %q", s, key)
			}
			for _, k := range keys() {
				if s.Start != nil && cmp.Cmp(k, s.Start) < 0 || s.Limit != nil &&
					cmp.Cmp(k, s.Limit) >= 0 {
					continue
				}
				if want := newest(cmp, ts, k, at); want != s.Seq {
					t.Fatalf("%v: the span %v at %d, %q has %d", ts, s, at, k, want)
				}
			}
			before := l.SpanBefore(key, at)
			if s.Start != nil && cmp.Cmp(s.Start, key) == 0 {
				if before.Limit == nil || cmp.Cmp(before.Limit, key) != 0 || before.Start != nil &&
					cmp.Cmp(before.Start, key) >= 0 {
					t.Fatalf("%v: the span before %q is %v", l.frags, key, before)
				}
				if before.Start != nil && l.SpanAt(before.Start, at).Seq != before.Seq {
					t.Fatalf("%v: the span before %q is %v", l.frags, key, before)
				}
			} else if before.Seq != s.Seq || !bytes.Equal(before.Start, s.Start) ||
				!bytes.Equal(before.Limit, s.Limit) {
				t.Fatalf("%q lies in the span %v, what is before it in %v", key, s, before)
			}
		}
		if last := l.SpanBefore(nil, at); last.Limit != nil || last.Seq != 0 {
			t.Fatalf("the span before the end: %v", last)
		}
	}
}

func TestLists(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	all := make([]base.SeqNum, maxSeq+1)
	for i := range all {
		all[i] = base.SeqNum(i)
	}
	for round := range 60 {
		cmp := []*base.Comparer{base.Bytewise, base.ReverseBytewise}[round%2]
		ts := draw(rng, rng.IntN(12))
		l := mergeAll(cmp, ts)
		check(t, cmp, l, ts, all)
		check(t, cmp, NewestOf(cmp, ts), ts, []base.SeqNum{maxSeq, base.MaxSeqNum})

		// Cut into parts that touch, it is the same.
		ks := keys()
		cut := ks[rng.IntN(len(ks))]
		low, high := l.Clip(nil, cut), l.Clip(cut, nil)
		check(t, cmp, Merge(cmp, high, low), ts, all)
		if _, end := low.Ends(); end != nil && cmp.Cmp(end, cut) > 0 {
			t.Fatalf("cut at %q it ends at %q", cut, end)
		}
		if start, _ := high.Ends(); start != nil && cmp.Cmp(start, cut) < 0 {
			t.Fatalf("cut at %q it starts at %q", cut, start)
		}

		// Without the old ones, the others stay.
		young := slices.DeleteFunc(slices.Clone(ts), func(t Tombstone) bool {
			return t.Seq <= maxSeq/2
		})
		filtered := l.Filter(func(f *Fragment) []base.SeqNum {
			n := 0
			for n < len(f.Seqs) && f.Seqs[n] > maxSeq/2 {
				n++
			}
			return f.Seqs[:n]
		})
		check(t, cmp, filtered, young, all)
	}
}

// TestJoin has one tombstone, cut into pieces in any order: it becomes one fragment again.
func TestJoin(t *testing.T) {
	one := single(base.Bytewise, Tombstone{[]byte("a"), []byte("z"), 7})
	var parts []*List
	for c := byte('a'); c < 'z'; c++ {
		parts = append(parts, one.Clip([]byte{c}, []byte{c + 1}))
	}
	rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	l := Merge(base.Bytewise, parts...)
	if l.Count() != 1 || string(l.frags[0].Start) != "a" || string(l.frags[0].Limit) != "z" {
		t.Errorf("%v", l.frags)
	}
}

func TestNewRefuses(t *testing.T) {
	f := func(start, limit string, seqs ...base.SeqNum) Fragment {
		return Fragment{[]byte(start), []byte(limit), seqs}
	}
	for _, frags := range [][]Fragment{
		{f("b", "a", 1)},
		{f("a", "a", 1)},
		{f("a", "b")},
		{f("a", "b", 1, 2)},
		{f("a", "b", 2, 2)},
		{f("a", "c", 1), f("b", "d", 1)},
		{f("c", "d", 1), f("a", "b", 1)},
		{{Start: nil, Limit: []byte("a"), Seqs: []base.SeqNum{1}}},
	} {
		if l, ok := New(base.Bytewise, frags); ok {
			t.Errorf("%v: accepted as %v", frags, l.frags)
		}
	}
	if l, ok := New(base.Bytewise, nil); l != nil || !ok {
		t.Error("an empty list is not nil")
	}
}

// TestNestedBatch has many tombstones over the same keys in one batch: the List stays small.
func TestNestedBatch(t *testing.T) {
	const n = 20_000
	ts := make([]Tombstone, n)
	for i := range ts {
		ts[i] = Tombstone{[]byte{byte(i >> 8), byte(i)}, []byte{0xff, byte(i >> 8), byte(i)},
			base.SeqNum(i + 1)}
	}
	if l := NewestOf(base.Bytewise, ts); l.Count() > 2*n {
		t.Errorf("%d tombstones", l.Count())
	}
}

func BenchmarkNewest(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		var ts []Tombstone
		for i := range n {
			ts = append(ts, Tombstone{[]byte{'k', byte(i >> 8), byte(i), 0},
				[]byte{'k', byte(i >> 8), byte(i), 9}, base.SeqNum(i + 1)})
		}
		l := NewestOf(base.Bytewise, ts)
		b.Run(map[int]string{1: "1", 100: "100", 10_000: "10000"}[n], func(b *testing.B) {
			i := 0
			for b.Loop() {
				i += 7919
				l.Newest([]byte{'k', byte(i % n >> 8), byte(i % n), 5}, base.MaxSeqNum)
			}
		})
	}
}

// TestOf: the fragments are those that merging the tombstones one by one gives.
func TestOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 500 {
		var ts []Tombstone
		var parts []*List
		for i := range rng.IntN(30) {
			a, b := rng.IntN(40), rng.IntN(40)
			if a == b {
				continue
			}
			one := Tombstone{[]byte{byte(min(a, b))}, []byte{byte(max(a, b))}, base.SeqNum(i + 1)}
			ts = append(ts, one.Clone())
			parts = append(parts, NewestOf(base.Bytewise, []Tombstone{one}))
		}
		rng.Shuffle(len(ts), func(i, j int) { ts[i], ts[j] = ts[j], ts[i] })
		want := Merge(base.Bytewise, parts...)
		got, ok := Of(base.Bytewise, ts, 10_000)
		if !ok || !reflect.DeepEqual(got.Fragments(), want.Fragments()) {
			t.Fatalf("%v, want %v", got.Fragments(), want.Fragments())
		}
	}
	nested := []Tombstone{{[]byte("a"), []byte("z"), 1}, {[]byte("b"), []byte("y"), 2},
		{[]byte("c"), []byte("x"), 3}}
	if l, ok := Of(base.Bytewise, nested, 8); ok {
		t.Errorf("9 tombstones in fragments, above the limit of 8: %v", l.Fragments())
	}
}
