// Package epoch tells when the last reader that may still see an unlinked object
// has gone.
//
// A Domain is one database's: its readers delay the reclamation of that database alone. A reader
// brackets its work with Enter and Exit. A writer first makes the object unreachable for new
// readers (an atomic store), then hands the function that frees it to Retire. The function runs, on
// the domain's background goroutine, once every guard that was entered before Retire was called has
// exited.
//
// The scheme is sleepable RCU with striped counters: a guard costs two
// uncontended atomic adds and never blocks. Guards may nest and may cross
// goroutines, but are short: one guard that stays entered holds back everything
// that its domain retired after it was entered. So no I/O happens inside a
// guard: a read that turns out to need some takes a reference count on what it
// reads and exits the guard first. Iterators hold reference counts, too.
//
// All functions are safe for concurrent use. A function given to Retire must
// not call DrainFor, and DrainFor must not be called inside a guard of the same
// domain: both would wait for themselves. A retired function may call Retire.
package epoch

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
)

// stripe counts the readers inside, by the phase in which they entered. The low bits of inside are
// their number; the bits above count the guards of EnterCounted, which is free: a guard changes the
// word anyway.
type stripe struct {
	inside [2]atomic.Int64
	_      [lineLen - 16]byte
}

const (
	insideBits = 24 // more readers than memory has stacks for
	insideMask = 1<<insideBits - 1
	// maxCounted is the count of a stripe from which on the sign bit is set, see carry.
	maxCounted = 1 << (63 - insideBits)
)

// Domain is a set of guards and what waits for them. The goroutine that runs
// retired functions exists only while there are any.
type Domain struct {
	// phase selects, by its lowest bit, the counters that new readers use. It
	// is written only by the reclaiming goroutine.
	phase   atomic.Uint32
	stripes []stripe                  // constant
	onPanic func(v any, stack []byte) // constant
	_       [lineLen]byte

	mu      sync.Mutex // guards the rest
	counted uint64     // guards of EnterCounted that stripes count no more
	done    sync.Cond  // finished has advanced, or a DrainFor is over; its L is &mu
	queue   []func()
	running bool   // the goroutine exists
	retired uint64 // functions ever queued
	finish  uint64 // functions that have run
}

// New makes a Domain. onPanic, which may be nil, takes a panic of a retired function. Such a panic,
// and one of onPanic, never escapes: the other functions still run.
func New(onPanic func(v any, stack []byte)) *Domain {
	d := &Domain{onPanic: onPanic}
	d.stripes = make([]stripe, numStripes)
	d.done.L = &d.mu
	return d
}

// Guard is an entered read section: the counter that holds it.
type Guard struct{ inside *atomic.Int64 }

// Enter begins a read section. It never blocks.
func (d *Domain) Enter() Guard {
	c := &d.stripes[ownStripe(len(d.stripes))].inside[d.phase.Load()&1]
	c.Add(1)
	return Guard{c}
}

// EnterCounted is Enter for a guard that Counted counts. nth is its number in its stripe.
func (d *Domain) EnterCounted() (g Guard, nth uint64) {
	c := &d.stripes[ownStripe(len(d.stripes))].inside[d.phase.Load()&1]
	n := c.Add(1<<insideBits | 1)
	if n < 0 {
		d.carry(c)
	}
	return Guard{c}, uint64(n) >> insideBits
}

// carry moves maxCounted guards from a stripe to d.counted, before the stripe's count overflows.
func (d *Domain) carry(c *atomic.Int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Load() < 0 {
		c.Add(math.MinInt64) // clears the sign bit
		d.counted += maxCounted
	}
}

// Counted is how many guards EnterCounted has entered.
func (d *Domain) Counted() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := d.counted
	for i := range d.stripes {
		for p := range d.stripes[i].inside {
			sum += uint64(d.stripes[i].inside[p].Load()) >> insideBits
		}
	}
	return sum
}

// Exit ends the read section. It is called exactly once per Enter.
func (g Guard) Exit() {
	n := g.inside.Add(-1)
	if invariants.Enabled {
		invariants.Check(n&insideMask != insideMask, "epoch: a guard was exited twice")
	}
}

// Retire queues f to run once every guard of d entered before the call has
// exited. Functions run one at a time, in the order of their Retire calls, and
// should not wait for anything slow: hand slow work on to a goroutine of its own.
func (d *Domain) Retire(f func()) {
	d.mu.Lock()
	d.queue = append(d.queue, f)
	d.retired++
	if !d.running {
		d.running = true
		go d.reclaim()
	}
	d.mu.Unlock()
}

// DrainFor waits until everything retired before the call has run, for at most
// patience. It reports whether everything has run.
func (d *Domain) DrainFor(patience time.Duration) bool {
	over := false // guarded by d.mu
	t := time.AfterFunc(patience, func() {
		d.mu.Lock()
		over = true
		d.done.Broadcast()
		d.mu.Unlock()
	})
	defer t.Stop()
	return d.drain(func() bool { return over })
}

func (d *Domain) drain(giveUp func() bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for until := d.retired; d.finish < until; {
		if giveUp() {
			return false
		}
		d.done.Wait()
	}
	return true
}

// reclaim runs the queue batch by batch until it is empty.
func (d *Domain) reclaim() {
	for {
		d.mu.Lock()
		batch := d.queue
		d.queue = nil
		if len(batch) == 0 {
			d.running = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		d.waitForReaders()
		for i, f := range batch {
			d.run(f, batch[i+1:])
			d.mu.Lock()
			d.finish++
			d.done.Broadcast()
			d.mu.Unlock()
		}
	}
}

// run runs f. If f ends the goroutine (runtime.Goexit), another one goes on with the rest.
func (d *Domain) run(f func(), rest []func()) {
	var ended any = base.ErrGoexit // unless f returns
	defer func() {
		v := recover()
		if v == nil && ended != nil {
			d.mu.Lock()
			d.finish++
			d.queue = append(rest, d.queue...)
			d.done.Broadcast()
			d.mu.Unlock()
			defer func() { go d.reclaim() }()
			v = ended
		}
		if v != nil && d.onPanic != nil {
			defer func() { _ = recover() }()
			d.onPanic(v, debug.Stack())
		}
	}()
	f()
	ended = nil
}

// waitForReaders returns when each of the counters has been seen at zero readers, and
// so every reader that was inside at the call has left. A reader that loads the
// phase and is delayed may still count itself into the old phase after the
// flip: if that happens after the counter was seen at zero, the reader entered
// after the call; if before, the counter holds it. The flip only keeps new
// readers from holding a counter above zero for ever.
func (d *Domain) waitForReaders() {
	old := d.phase.Load() & 1
	d.waitForPhase(old ^ 1)
	d.phase.Add(1)
	d.waitForPhase(old)
}

func (d *Domain) waitForPhase(p uint32) {
	for i := range d.stripes {
		c := &d.stripes[i].inside[p]
		for n := 0; c.Load()&insideMask != 0; n++ {
			// Most guards are gone within a microsecond; one whose thread the
			// system has taken off its processor lasts for milliseconds.
			if n < 16 {
				runtime.Gosched()
				continue
			}
			time.Sleep(min(time.Duration(n-15)*20*time.Microsecond, 2*time.Millisecond))
		}
	}
}
