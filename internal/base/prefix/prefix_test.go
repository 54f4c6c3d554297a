package prefix

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

var plainOrder = &base.Comparer{Name: "test.Plain", Compare: bytes.Compare}

var comparers = []*base.Comparer{base.Bytewise, base.ReverseBytewise, plainOrder}

// randomKeys usually share a prefix, and have few distinct bytes after it, of which zeros and 0xff
// are the hardest to distinguish from padding.
func randomKeys(rng *rand.Rand, c *base.Comparer, n int) [][]byte {
	shared := make([]byte, rng.IntN(30))
	for i := range shared {
		shared[i] = "\x00a\xff"[rng.IntN(3)]
	}
	keys := make([][]byte, n)
	fixed := rng.IntN(3) == 0
	for i := range keys {
		k := shared[:len(shared):len(shared)]
		if !fixed && rng.IntN(10) == 0 {
			k = k[:rng.IntN(len(k)+1)]
		}
		tail := rng.IntN(12)
		if fixed {
			tail = 6
		}
		for range tail {
			k = append(k, "\x00\x01a\xfe\xff"[rng.IntN(5)])
		}
		keys[i] = slices.Clone(k)
	}
	slices.SortFunc(keys, c.Compare)
	return keys
}

func column(c *base.Comparer, p Prefix, keys [][]byte) []uint64 {
	abbrevs := make([]uint64, len(keys))
	for i, k := range keys {
		abbrevs[i] = p.Abbrev(c, k)
	}
	return abbrevs
}

// TestRangeAgreesWithComparing looks for keys that are in a set and keys that are
// not, with the prefix and without: comparing every key must not say otherwise.
func TestRangeAgreesWithComparing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	narrowed := 0
	for round := range 3000 {
		c := comparers[round%len(comparers)]
		keys := randomKeys(rng, c, 1+rng.IntN(150))
		p := Of(c, keys[0], keys[len(keys)-1])
		for _, k := range keys {
			if !p.In(k) {
				t.Fatalf("%q is not in the prefix %q of its set", k, p)
			}
		}
		if c.HasAbbrev() && len(p) < len(keys[0]) &&
			!slices.ContainsFunc(keys, func(k []byte) bool {
				return len(k) == len(p) || k[len(p)] != keys[0][len(p)]
			}) {
			t.Fatalf("all keys share more than %q", p)
		}
		abbrevs := column(c, p, keys)
		if !slices.IsSorted(abbrevs) {
			t.Fatalf("abbreviations do not ascend with keys: %x", abbrevs)
		}
		for _, key := range append(randomKeys(rng, c, 20), keys[rng.IntN(len(keys))], nil) {
			want := sort.Search(len(keys), func(i int) bool { return c.Compare(keys[i], key) >= 0 })
			if !p.In(key) {
				if before := p.Before(c, key); before && want != 0 || !before && want != len(keys) {
					t.Fatalf("%q against prefix %q: before is %v, its place is %d of %d", key, p,
						before, want, len(keys))
				}
				continue
			}
			lo, hi := Range(abbrevs, p.Abbrev(c, key))
			if want < lo || want > hi || lo > hi || hi > len(keys) {
				t.Fatalf("%q belongs at %d, the range is [%d, %d)", key, want, lo, hi)
			}
			for i := lo; i < hi; i++ {
				if abbrevs[i] != p.Abbrev(c, key) {
					t.Fatalf("entry %d of [%d, %d) has another abbreviation", i, lo, hi)
				}
			}
			if hi-lo < len(keys) {
				narrowed++
			}
		}
	}
	if narrowed < 10_000 {
		t.Errorf("only %d searches were narrowed by abbreviations", narrowed)
	}
}

// TestSearch holds both searches against counting, for all lengths around the
// ones where they change their way.
func TestSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 300 {
		for round := range 20 {
			space := uint64(1) << (1 + rng.IntN(63))
			a := make([]uint64, n)
			for i := range a {
				a[i] = rng.Uint64N(space)
				if rng.IntN(20) == 0 {
					a[i] = math.MaxUint64
				}
			}
			slices.Sort(a)
			x := []uint64{rng.Uint64N(space), 0, math.MaxUint64}[round%3]
			if n > 0 && round%2 == 0 {
				x = a[rng.IntN(n)]
			}
			want := 0
			for _, y := range a {
				if y < x {
					want++
				}
			}
			if got := Search(a, x); got != want {
				t.Fatalf("%d of %d are below %x, Search says %d: %x", want, n, x, got, a)
			}
			if n <= Width {
				var array [Width]uint64
				for i := copy(array[:], a); i < Width; i++ {
					array[i] = math.MaxUint64
				}
				if got := SearchArray(&array, x); got != want {
					t.Fatalf("%d of %d are below %x, SearchArray says %d: %x", want, n, x, got, a)
				}
			}
			if want < n {
				end := want
				for end < n && a[end] == a[want] {
					end++
				}
				if got := TiesEnd(a, want); got != end {
					t.Fatalf("ties of %d end at %d, TiesEnd says %d: %x", want, end, got, a)
				}
			}
		}
	}
}

// TestWidening joins keys to a set one by one: abbreviations that were widened
// must be those that the keys themselves have, in both directions of a merge.
func TestWidening(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	widened := 0
	for round := range 2000 {
		c := comparers[round%len(comparers)]
		keys := randomKeys(rng, c, 1+rng.IntN(20))
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		flip := Flip(c)
		if c.HasAbbrev() && round%2 == 0 {
			flip = ^flip
		}
		abbrev := func(p Prefix, k []byte) uint64 { return p.Abbrev(c, k) ^ Flip(c) ^ flip }
		p := OfOne(c, keys[0])
		abbrevs := []uint64{abbrev(p, keys[0])}
		for _, key := range keys[1:] {
			if q := p.With(key); len(q) < len(p) {
				widened++
				w := p.Widen(flip, len(q))
				w.ApplyAll(abbrevs)
				p = q
			}
			abbrevs = append(abbrevs, abbrev(p, key))
			for i, x := range abbrevs {
				if !p.In(keys[i]) || x != abbrev(p, keys[i]) {
					t.Fatalf("%q after %q is %x once %q has joined; it should be %x", keys[i], p, x,
						key, abbrev(p, keys[i]))
				}
			}
		}
		if w := p.Widen(flip, len(p)); w.Apply(abbrevs[0]) != abbrevs[0] {
			t.Fatalf("a widening by nothing makes %x of %x", w.Apply(abbrevs[0]), abbrevs[0])
		}
	}
	if widened < 1000 {
		t.Errorf("only %d prefixes were shortened", widened)
	}
}

// TestExact checks that where a set is said to be exact, keys of its length with
// equal abbreviations are equal, and that it is said where it can be.
func TestExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	exact, not := 0, 0
	for round := range 3000 {
		c := comparers[round%len(comparers)]
		keys := randomKeys(rng, c, 1+rng.IntN(20))
		p := Of(c, keys[0], keys[len(keys)-1])
		l, same := LengthOf(keys[0]), true
		for _, k := range keys {
			l, same = l.With(k), same && len(k) == len(keys[0])
		}
		if same != (l == Length(len(keys[0]))) || !same && l != Mixed {
			t.Fatalf("Length %d of keys as long as %q: %v", l, keys[0], same)
		}
		if want := same && c.HasAbbrev() && len(keys[0]) <= len(p)+8; l.Exact(c, len(p)) != want {
			t.Fatalf("Exact is %v for %d keys of %d bytes after %d", !want, len(keys), l, len(p))
		}
		if !l.Exact(c, len(p)) {
			not++
			continue
		}
		exact++
		for _, a := range keys {
			for _, b := range keys {
				if p.Abbrev(c, a) == p.Abbrev(c, b) && !bytes.Equal(a, b) {
					t.Fatalf("%q and %q share an abbreviation after %q", a, b, p)
				}
			}
		}
	}
	if exact < 200 || not < 200 {
		t.Errorf("%d sets were exact and %d were not", exact, not)
	}
	if l := LengthOf(nil); l.With([]byte("a")) != Mixed || Mixed.With(nil) != Mixed {
		t.Error("lengths that differ are not Mixed")
	}
}

// TestReader reads abbreviations of keys that end anywhere before the end of the
// memory they lie in.
func TestReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for round := range 1000 {
		c := comparers[round%len(comparers)]
		keys := randomKeys(rng, c, 1+rng.IntN(10))
		p := Of(c, keys[0], keys[len(keys)-1])
		var e base.Chunk
		for _, k := range keys {
			e.KeyOff = append(e.KeyOff, uint32(len(e.Data)))
			e.Data = append(e.Data, k...)
			e.ValOff = append(e.ValOff, uint32(len(e.Data)))
			e.Data = append(e.Data, "\xff\xff\xff\xff\xff\xff\xff\xff\xff"[:rng.IntN(10)]...)
			e.ValEnd = append(e.ValEnd, uint32(len(e.Data)))
			e.Trailers = append(e.Trailers, 0)
		}
		e.Data = slices.Clip(e.Data)
		r := Reader{Skip: len(p), Flip: Flip(c), None: !c.HasAbbrev()}
		for i, k := range keys {
			if got, want := r.Abbrev(&e, i), p.Abbrev(c, k); got != want {
				t.Fatalf("%q after %q is read as %x, is %x", k, p, got, want)
			}
		}
	}
}

// TestNoAllocations holds everything that a search does to none.
func TestNoAllocations(t *testing.T) {
	c := base.Bytewise
	keys := make([][]byte, 200)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user%06d", i)
	}
	p := Of(c, keys[0], keys[199])
	abbrevs := column(c, p, keys)
	if n := testing.AllocsPerRun(100, func() {
		q := Of(c, keys[0], keys[199]).With(keys[7])
		w := q.Widen(Flip(c), 2)
		w.ApplyAll(abbrevs[:0])
		if lo, hi := Range(abbrevs, p.Abbrev(c, keys[100])); lo != 100 || hi != 101 ||
			!p.In(keys[100]) {
			t.Fatal(lo, hi)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRange(b *testing.B) {
	for _, n := range []int{8, 34, 64, 1000, 100_000} {
		b.Run(fmt.Sprint("n=", n), func(b *testing.B) {
			c := base.Bytewise
			keys := make([][]byte, n)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "user%012d", i)
			}
			p := Of(c, keys[0], keys[n-1])
			abbrevs := column(c, p, keys)
			order := rand.New(rand.NewPCG(1, 2)).Perm(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[order[i%n]]
				if lo, hi := Range(abbrevs, p.Abbrev(c, key)); !p.In(key) || hi != lo+1 {
					b.Fatal(lo, hi)
				}
			}
		})
	}
}

func BenchmarkSearchArray(b *testing.B) {
	var a [Width]uint64
	for i := range a {
		a[i] = uint64(i) << 32
	}
	rng := rand.New(rand.NewPCG(1, 2))
	xs := make([]uint64, 1024)
	for i := range xs {
		xs[i] = a[rng.IntN(Width)]
	}
	sum := 0
	for i := 0; b.Loop(); i++ {
		sum += SearchArray(&a, xs[i&1023])
	}
	_ = sum
}

func BenchmarkWiden(b *testing.B) {
	var a [Width]uint64
	p := Prefix("user0000")
	for b.Loop() {
		w := p.Widen(0, 7)
		w.ApplyAll(a[:])
	}
}
