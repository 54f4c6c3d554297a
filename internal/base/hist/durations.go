package hist

import (
	"sync/atomic"
	"time"
)

// start is what Now counts from.
var start = time.Now()

// Now is a time of the monotonic clock in nanoseconds; it is not 0.
func Now() int64 { return int64(time.Since(start)) | 1 }

// Durations is a histogram of durations in nanoseconds. Its zero value is ready, and takes the
// memory of a Histogram at the first Since.
type Durations struct{ h atomic.Pointer[Histogram] }

// Begin takes the memory now.
func (d *Durations) Begin() { d.h.CompareAndSwap(nil, new(Histogram)) }

// Since records the time that has passed since begun, which is of Now.
func (d *Durations) Since(begun int64) {
	h := d.h.Load()
	if h == nil {
		d.Begin()
		h = d.h.Load()
	}
	h.Record(Now() - begun)
}

// Histogram has what was recorded; it is nil before the first Since.
func (d *Durations) Histogram() *Histogram { return d.h.Load() }
