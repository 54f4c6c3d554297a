package radix

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSort compares with a stable sort, for numbers of pairs around each threshold, and for
// abbreviations that differ in few bits.
func TestSort(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 400 {
		n := []int{0, 1, 2, Few, Few + 1, 300, YieldEvery + 1, 5000}[rng.IntN(8)]
		mask := []uint64{0, 1, 0xff, 0x1ff, 0xff << 56, 1<<63 | 1, 0xf0f0 << 20,
			^uint64(0)}[rng.IntN(8)]
		base := rng.Uint64() &^ mask
		a := make([]Pair, n)
		for i := range a {
			a[i] = Pair{Ab: base | rng.Uint64()&mask, Off: uint32(i), Same: rng.IntN(2) == 0}
		}
		want := slices.Clone(a)
		slices.SortStableFunc(want, func(x, y Pair) int { return cmp.Compare(x.Ab, y.Ab) })
		if tmp := make([]Pair, n+rng.IntN(2)); rng.IntN(2) == 0 {
			a = SortInto(a, tmp, round%2 == 0)
		} else {
			Sort(a, tmp, round%2 == 0)
		}
		if !slices.Equal(a, want) {
			t.Fatalf("round %d: %d pairs that differ in %#x are in another order than those of a "+
				"stable sort", round, n, mask)
		}
	}
}

func BenchmarkSort(b *testing.B) {
	const n = 1 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]Pair, n)
	for i := range all {
		all[i] = Pair{Ab: rng.Uint64(), Off: uint32(i)}
	}
	a, tmp := make([]Pair, n), make([]Pair, n)
	for b.Loop() {
		copy(a, all)
		SortInto(a, tmp, false)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/pair")
}
