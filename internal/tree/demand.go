package tree

import (
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Demand is what the reads of a follower's present and its catch-ups tell each other: whether there
// are reads at all, and whether the state is so old that a read waits for the next one. It is safe
// for concurrent use.
type Demand struct {
	read  atomic.Bool // since Take
	stale atomic.Bool

	// Wanted has an element when a read waits.
	Wanted chan struct{}

	mu      sync.Mutex
	renewed chan struct{} // closed by the next Renew; nil: nobody waits
	ended   bool
}

// NewDemand returns the Demand of a state that is new.
func NewDemand() *Demand { return &Demand{Wanted: make(chan struct{}, 1)} }

// Take reports whether there was a read since the last Take.
func (d *Demand) Take() bool { return d.read.Swap(false) }

// Expire makes the reads to come wait for a Renew.
func (d *Demand) Expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale.Store(!d.ended)
}

// Renew lets the reads go on that wait.
func (d *Demand) Renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renewLocked()
}

// End is Renew for good.
func (d *Demand) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.renewLocked()
}

func (d *Demand) renewLocked() {
	d.stale.Store(false)
	if d.renewed != nil {
		close(d.renewed)
		d.renewed = nil
	}
}

// Wait notes a read of the present, and returns when the state is not too old for it. done, which
// may be nil, ends the wait, too.
func (d *Demand) Wait(done <-chan struct{}) {
	if !d.read.Load() { // most find it set, and leave the cache line shared
		d.read.Store(true)
	}
	if !d.stale.Load() {
		return
	}
	d.mu.Lock()
	if !d.stale.Load() {
		d.mu.Unlock()
		return
	}
	if d.renewed == nil {
		d.renewed = make(chan struct{})
	}
	renewed := d.renewed
	d.mu.Unlock()
	select {
	case d.Wanted <- struct{}{}:
	default:
	}
	select {
	case <-renewed:
	case <-done:
	}
}

// present is called before the current state is read for snap. With sstable.MemoryOnly it does not
// wait, but fails with base.ErrWouldBlock.
func (t *Tree) present(snap *Snapshot, flags sstable.ReadFlags) error {
	if t.demand == nil || snap != nil {
		return nil
	}
	if flags&sstable.MemoryOnly != 0 && t.demand.stale.Load() {
		return base.ErrWouldBlock
	}
	t.demand.Wait(nil)
	return nil
}
