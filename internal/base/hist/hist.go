// Package hist is a fixed-size histogram of non-negative integers such as
// latencies in nanoseconds, with buckets at most 1/32 of their value wide.
//
// Record may be called from any number of goroutines and does not lock or
// allocate. The readers may run beside it; what they return is then some mix
// of before and after, never torn numbers.
package hist

import (
	"iter"
	"math"
	"math/bits"
	"sync/atomic"
)

// Values below 2*subBuckets have a bucket each; every further power of two is
// cut into subBuckets equal buckets.
const (
	subBits    = 5
	subBuckets = 1 << subBits
	numBuckets = (64 - subBits) * subBuckets // values below 1<<63
)

// Histogram counts values by bucket. The zero value is empty and ready. It
// must not be copied.
type Histogram struct {
	sum    atomic.Int64
	max    atomic.Int64
	low    atomic.Int64 // -1 - smallest value; 0 while empty
	counts [numBuckets]atomic.Int64
}

// Bucket is a range of values and how many were recorded in it.
type Bucket struct {
	Low, High int64 // both inclusive
	Count     int64
}

func bucketOf(v int64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 1 - subBits
	return shift<<subBits + int(v>>shift)
}

func bucketRange(i int) (low, high int64) {
	if i < 2*subBuckets {
		return int64(i), int64(i)
	}
	shift := i>>subBits - 1
	low = int64(i-shift<<subBits) << shift
	return low, low + (1<<shift - 1)
}

// Record counts v; a negative v counts as 0.
func (h *Histogram) Record(v int64) {
	v = max(v, 0)
	h.counts[bucketOf(v)].Add(1)
	h.sum.Add(v)
	raise(&h.max, v)
	lower(&h.low, -1-v)
}

func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old; old = a.Load() {
		if a.CompareAndSwap(old, v) {
			return
		}
	}
}

// lower keeps in a the largest of the negative numbers v, 0 meaning none yet.
func lower(a *atomic.Int64, v int64) {
	for old := a.Load(); old == 0 || v > old; old = a.Load() {
		if a.CompareAndSwap(old, v) {
			return
		}
	}
}

// Count is how many values were recorded.
func (h *Histogram) Count() int64 {
	var n int64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Sum is the sum of all values; it wraps beyond 63 bits.
func (h *Histogram) Sum() int64 { return h.sum.Load() }

// Min is the smallest value recorded, 0 when there is none.
func (h *Histogram) Min() int64 {
	if l := h.low.Load(); l != 0 {
		return -1 - l
	}
	return 0
}

// Max is the largest value recorded, 0 when there is none.
func (h *Histogram) Max() int64 { return h.max.Load() }

// Mean is the average, 0 when nothing was recorded.
func (h *Histogram) Mean() float64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return float64(h.Sum()) / float64(n)
}

// StdDev is the standard deviation, each value taken as its bucket's middle.
func (h *Histogram) StdDev() float64 {
	var n, mean, m2 float64
	for b := range h.Buckets() { // weighted Welford
		c, v := float64(b.Count), float64(b.Low)+float64(b.High-b.Low)/2
		n += c
		d := v - mean
		mean += d * c / n
		m2 += c * d * (v - mean)
	}
	if n == 0 {
		return 0
	}
	return math.Sqrt(m2 / n)
}

// Quantile is a value that the fraction q of all recorded ones do not exceed,
// interpolated within its bucket; Quantile(0.5) is the median. It is 0 when
// nothing was recorded.
func (h *Histogram) Quantile(q float64) int64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	if !(q > 0) { // NaN too
		return h.Min()
	}
	if q >= 1 {
		return h.Max()
	}
	rank := int64(math.Ceil(q * float64(n)))
	var seen int64
	for b := range h.Buckets() {
		if seen+b.Count >= rank {
			part := float64(rank-seen) / float64(b.Count)
			v := b.Low + int64(float64(b.High-b.Low)*part)
			return min(max(v, h.Min()), h.Max())
		}
		seen += b.Count
	}
	return h.Max()
}

// Merge adds the values of o.
func (h *Histogram) Merge(o *Histogram) {
	for i := range o.counts {
		if c := o.counts[i].Load(); c != 0 {
			h.counts[i].Add(c)
		}
	}
	h.sum.Add(o.sum.Load())
	raise(&h.max, o.max.Load())
	if l := o.low.Load(); l != 0 {
		lower(&h.low, l)
	}
}

// Buckets yields the buckets that are not empty, ascending.
func (h *Histogram) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for i := range h.counts {
			c := h.counts[i].Load()
			if c == 0 {
				continue
			}
			low, high := bucketRange(i)
			if !yield(Bucket{low, high, c}) {
				return
			}
		}
	}
}
