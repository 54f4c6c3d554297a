// Package epoch is a process-wide read guard: it tells when the last reader
// that may still see an unlinked object has gone.
//
// A reader brackets its work with Enter and Exit. A writer first makes the
// object unreachable for new readers (an atomic store), then hands the function
// that frees it to Retire. The function runs, on a background goroutine, once
// every guard that was entered before Retire was called has exited.
//
// The scheme is sleepable RCU with striped counters: a guard costs two
// uncontended atomic adds and never blocks. Guards may nest and may cross
// goroutines, but should be short: one guard that stays entered holds back
// everything retired after it was entered. Long-lived readers (iterators,
// snapshots) hold reference counts instead.
//
// All functions are safe for concurrent use. A function given to Retire must
// not call Drain, and Drain must not be called inside a guard: both would wait
// for themselves. A retired function may call Retire.
package epoch

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/loamdb/loam/internal/invariants"
)

const (
	stripeBits = 6
	numStripes = 1 << stripeBits
)

// stripe counts the readers inside, by the phase in which they entered. It
// fills two cache lines because adjacent lines are fetched in pairs.
type stripe struct {
	inside [2]atomic.Int32
	_      [120]byte
}

var (
	stripes [numStripes]stripe
	// phase selects, by its lowest bit, the counters that new readers use. It
	// is written only by the reclaimer.
	phase atomic.Uint32
)

// Guard is an entered read section: stripe<<1 | phase.
type Guard uint32

// Enter begins a read section. It never blocks.
func Enter() Guard {
	var local byte
	// The goroutine's stack address stands for the goroutine. A stack is at
	// least 2 KiB; the multiplication spreads the power-of-two distances.
	h := uint64(uintptr(unsafe.Pointer(&local))>>11) * 0x9e3779b97f4a7c15 >> (64 - stripeBits)
	p := phase.Load() & 1
	stripes[h%numStripes].inside[p].Add(1)
	return Guard(uint32(h)<<1 | p)
}

// Exit ends the read section. It is called exactly once per Enter.
func (g Guard) Exit() {
	n := stripes[g>>1%numStripes].inside[g&1].Add(-1)
	if invariants.Enabled {
		invariants.Check(n >= 0, "epoch: a guard was exited twice")
	}
}

// reclaimer is the queue of retired functions.
var reclaimer struct {
	mu      sync.Mutex
	done    sync.Cond // signalled when finished has advanced; its L is &mu
	queue   []func()
	running bool   // the goroutine exists
	retired uint64 // functions ever queued
	finish  uint64 // functions that have run
	onPanic func(v any, stack []byte)
}

func init() { reclaimer.done.L = &reclaimer.mu }

// Retire queues f to run once every guard entered before the call has exited.
// Functions run one at a time, in the order of their Retire calls, and should
// not wait for anything slow: hand slow work on to a goroutine of its own.
func Retire(f func()) {
	r := &reclaimer
	r.mu.Lock()
	r.queue = append(r.queue, f)
	r.retired++
	if !r.running {
		r.running = true
		go reclaim()
	}
	r.mu.Unlock()
}

// Drain returns when everything retired before the call has run.
func Drain() {
	r := &reclaimer
	r.mu.Lock()
	for until := r.retired; r.finish < until; {
		r.done.Wait()
	}
	r.mu.Unlock()
}

// SetPanicHandler sets the function that is told of a panic in a retired
// function. Such a panic never escapes: the others still run.
func SetPanicHandler(h func(v any, stack []byte)) {
	reclaimer.mu.Lock()
	reclaimer.onPanic = h
	reclaimer.mu.Unlock()
}

// reclaim runs the queue batch by batch until it is empty.
func reclaim() {
	r := &reclaimer
	for {
		r.mu.Lock()
		batch := r.queue
		r.queue = nil
		if len(batch) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		waitForReaders()
		for _, f := range batch {
			run(f)
			r.mu.Lock()
			r.finish++
			r.done.Broadcast()
			r.mu.Unlock()
		}
	}
}

func run(f func()) {
	defer func() {
		if v := recover(); v != nil {
			reclaimer.mu.Lock()
			h := reclaimer.onPanic
			reclaimer.mu.Unlock()
			if h != nil {
				h(v, debug.Stack())
			}
		}
	}()
	f()
}

// waitForReaders returns when each of the counters has been seen at zero, and
// so every reader that was inside at the call has left. A reader that loads the
// phase and is delayed may still count itself into the old phase after the
// flip: if that happens after the counter was seen at zero, the reader entered
// after the call; if before, the counter holds it. The flip only keeps new
// readers from holding a counter above zero for ever.
func waitForReaders() {
	old := phase.Load() & 1
	waitForPhase(old ^ 1)
	phase.Add(1)
	waitForPhase(old)
}

func waitForPhase(p uint32) {
	for i := range stripes {
		c := &stripes[i].inside[p]
		for n := 0; c.Load() != 0; n++ {
			// Most guards are gone within a microsecond, those that read from
			// a disk within a millisecond.
			if n < 16 {
				runtime.Gosched()
				continue
			}
			time.Sleep(min(time.Duration(n-15)*20*time.Microsecond, 2*time.Millisecond))
		}
	}
}
