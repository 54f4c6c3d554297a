package epoch

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/invariants"
)

// Bounds on the number of stripes, see numStripes.
const (
	minStripes = 16
	maxStripes = 256
)

// lineLen is two cache lines in bytes: adjacent lines are fetched in pairs.
const lineLen = 128

// numStripes is how many stripes a counter has, a power of two: four for each
// processor, so that goroutines that run at the same time seldom share one.
var numStripes = stripesFor(max(runtime.NumCPU(), runtime.GOMAXPROCS(0)))

func stripesFor(processors int) int {
	n := minStripes
	for n < 4*processors && n < maxStripes {
		n *= 2
	}
	return n
}

// ownStripe returns the index of the calling goroutine's stripe of n, a power of two
// up to maxStripes. The address of the stack stands for the goroutine. A stack is at
// least 2 KiB; the multiplication spreads the power-of-two distances.
func ownStripe(n int) int {
	var local byte
	h := uint64(uintptr(unsafe.Pointer(&local))>>11) * 0x9e3779b97f4a7c15
	return int(h >> 56 * uint64(n) >> 8)
}

// cell is one stripe of a number.
type cell struct {
	n atomic.Int64
	_ [lineLen - 8]byte
}

// Refs counts the references on an object whose owner has one until Settle. Before
// Settle, references are counted in stripes, so that goroutines that take and return
// them write different cache lines. Settle closes the stripes and moves their counts
// to one counter, which tells the last reference from the others. The first references
// are counted there, too: an object that is seldom referenced has no stripes.
type Refs struct {
	cells atomic.Pointer[[]cell] // nil at first; noCells from Settle on
	n     atomic.Int64
	early atomic.Int32 // references taken and returned without stripes
}

var noCells []cell

const (
	// stripesFrom is how often a Refs or a Tally is used before it gets stripes.
	stripesFrom = 64
	// unsettled is added to Refs.n until Settle, so that it does not reach 0.
	unsettled = 1 << 40
	// settledCell is the value of a cell that counts no more. Later additions, each 1 or -1 for a
	// moment, do not bring it near 0.
	settledCell = -1 << 62
)

// Init makes r, which is zero, hold the owner's reference.
func (r *Refs) Init() { r.n.Store(unsettled) }

// Ref takes a reference.
//
// REQUIRES: the caller has a reference, or knows that Settle has not been called and
// is not called before Ref returns.
func (r *Refs) Ref() { r.add(1) }

// Unref gives a reference back. It reports whether that was the last one.
func (r *Refs) Unref() (last bool) { return r.add(-1) }

func (r *Refs) add(d int64) (last bool) {
	p := r.cells.Load()
	if p == nil {
		if r.early.Add(1) == stripesFrom {
			cells := make([]cell, numStripes)
			r.cells.CompareAndSwap(nil, &cells)
		}
	} else if cells := *p; len(cells) > 0 && cells[ownStripe(len(cells))].n.Add(d) > settledCell/2 {
		return false
	}
	n := r.n.Add(d)
	if invariants.Enabled {
		invariants.Check(n > 0 || n == 0 && d < 0, "epoch: %d references after a change by %d", n,
			d)
	}
	return n == 0
}

// Settle gives back the owner's reference. It reports whether that was the last one.
// It is called once.
func (r *Refs) Settle() (last bool) {
	sum := int64(0)
	if p := r.cells.Swap(&noCells); p != nil {
		for i := range *p {
			sum += (*p)[i].n.Swap(settledCell)
		}
	}
	return r.n.Add(sum-unsettled) == 0
}

// Tally is a sum that many goroutines add to, each in a stripe of its own. A stripe
// that has reached a step is moved to the total. The first additions are made to the total.
type Tally struct {
	cells atomic.Pointer[[]cell] // nil at first
	step  int64                  // constant
	_     [lineLen]byte
	total atomic.Int64
	early atomic.Int32 // additions made without stripes
	_     [lineLen]byte
}

// NoStep is a step that no stripe reaches: Add never moves anything, and Sum never decreases.
const NoStep = math.MaxInt64

// Init makes t, which is zero, ready.
func (t *Tally) Init(step int64) { t.step = step }

// Add adds d, which is not negative. Where that changed the total, moved is true, and
// the total was before and is after.
func (t *Tally) Add(d int64) (before, after int64, moved bool) {
	if p := t.cells.Load(); p != nil {
		c := &(*p)[ownStripe(len(*p))]
		if c.n.Add(d) < t.step {
			return 0, 0, false
		}
		d = c.n.Swap(0)
	} else if t.early.Add(1) == stripesFrom {
		cells := make([]cell, numStripes)
		t.cells.Store(&cells)
	}
	after = t.total.Add(d)
	return after - d, after, true
}

// Count adds 1 to t, whose step is NoStep. It returns how many were added by this processor's
// stripe, or before there are stripes in all, so that one in so many can be told.
func (t *Tally) Count() (nth int64) {
	if p := t.cells.Load(); p != nil {
		return (*p)[ownStripe(len(*p))].n.Add(1)
	}
	_, nth, _ = t.Add(1)
	return nth
}

// Sum is what has been added, less what was taken. Beside Add it is an estimate.
func (t *Tally) Sum() int64 {
	sum := t.total.Load()
	if p := t.cells.Load(); p != nil {
		for i := range *p {
			sum += (*p)[i].n.Load()
		}
	}
	return sum
}

// Take takes d off, or all that there is.
func (t *Tally) Take(d int64) {
	if p := t.cells.Load(); p != nil {
		for i := range *p {
			t.total.Add((*p)[i].n.Swap(0))
		}
	}
	for {
		have := t.total.Load()
		if t.total.CompareAndSwap(have, have-min(d, have)) {
			return
		}
	}
}
