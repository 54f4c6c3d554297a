package hist

import (
	"math"
	"math/rand"
	"slices"
	"sync"
	"testing"
)

func TestBuckets(t *testing.T) {
	next := int64(0)
	for i := range numBuckets {
		low, high := bucketRange(i)
		if low != next {
			t.Fatalf("bucket %d begins at %d, want %d", i, low, next)
		}
		if bucketOf(low) != i || bucketOf(high) != i {
			t.Fatalf("bucket %d [%d, %d] maps to %d and %d", i, low, high, bucketOf(low),
				bucketOf(high))
		}
		if high-low > low/subBuckets {
			t.Fatalf("bucket %d [%d, %d] is too wide", i, low, high)
		}
		next = high + 1 // wraps after the last
	}
	if next != math.MinInt64 {
		t.Fatalf("buckets end at %d", next)
	}
}

func TestEmpty(t *testing.T) {
	var h Histogram
	if h.Count() != 0 || h.Min() != 0 || h.Max() != 0 || h.Mean() != 0 || h.StdDev() != 0 ||
		h.Quantile(.5) != 0 {
		t.Error("an empty histogram says something")
	}
}

func TestAgainstSort(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	var h, part Histogram
	var all []int64
	var sum, squares float64
	for i := range 50000 {
		v := int64(math.Exp(rng.NormFloat64()*2 + 8))
		all = append(all, v)
		sum += float64(v)
		if i%2 == 0 {
			h.Record(v)
		} else {
			part.Record(v)
		}
	}
	h.Merge(&part)
	slices.Sort(all)
	mean := sum / float64(len(all))
	for _, v := range all {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > want/subBuckets+1 {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999} {
		near("quantile", float64(h.Quantile(q)),
			float64(all[int(math.Ceil(q*float64(len(all))))-1]))
	}
	near("stddev", h.StdDev(), math.Sqrt(squares/float64(len(all))))
	if h.Count() != 50000 || h.Min() != all[0] || h.Max() != all[len(all)-1] || h.Mean() != mean {
		t.Errorf("count %d min %d max %d mean %v", h.Count(), h.Min(), h.Max(), h.Mean())
	}
	if h.Quantile(0) != h.Min() || h.Quantile(1) != h.Max() || h.Quantile(math.NaN()) != h.Min() {
		t.Error("quantile at the ends")
	}
}

func TestExtremes(t *testing.T) {
	var h Histogram
	h.Record(-5)
	h.Record(math.MaxInt64)
	if h.Min() != 0 || h.Max() != math.MaxInt64 || h.Quantile(.5) != 0 || h.Count() != 2 {
		t.Errorf("min %d max %d median %d", h.Min(), h.Max(), h.Quantile(.5))
	}
}

func TestConcurrent(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 10000 {
				h.Record(int64(g*10000 + i + 1))
			}
		}()
	}
	wg.Wait()
	if h.Count() != 40000 || h.Sum() != 40000*40001/2 || h.Min() != 1 || h.Max() != 40000 {
		t.Errorf("count %d sum %d min %d max %d", h.Count(), h.Sum(), h.Min(), h.Max())
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	v := int64(0)
	for b.Loop() {
		h.Record(v & 0xffff)
		v += 977
	}
}
