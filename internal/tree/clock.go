package tree

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Clock decides which values have expired, in seconds since 1970. It never goes back: it is the
// wall clock, or the newest time that was told before, in earlier openings too as far as the
// MANIFEST says. So what has expired stays so when the wall clock is set back; the Clock then
// stands until the wall clock has caught up.
//
// Nobody asks it before there is an entry that expires. It is safe for concurrent use.
type Clock struct {
	wall   func() time.Time // nil: time.Now
	newest atomic.Uint64    // the newest time told
	used   atomic.Bool      // there may be entries that expire
}

// Init sets the wall clock, nil for the system's, and the newest time that the MANIFEST
// has, 0 for none. It comes before all other calls.
func (c *Clock) Init(wall func() time.Time, stored uint64) {
	c.wall = wall
	c.newest.Store(min(stored, base.MaxDeadline))
	c.used.Store(stored > 0)
}

// Raise moves the clock up to stored, the newest time at which another process treated entries as
// expired. 0 means that no entry expired.
func (c *Clock) Raise(stored uint64) {
	stored = min(stored, base.MaxDeadline)
	for old := c.newest.Load(); old < stored &&
		!c.newest.CompareAndSwap(old, stored); old = c.newest.Load() {
	}
	if stored > 0 {
		c.Use()
	}
}

// Use says that there will be entries that expire. It comes before they are visible.
func (c *Clock) Use() {
	if !c.used.Load() {
		c.used.Store(true)
	}
}

// InUse reports whether there may be entries that expire. A reader asks after it has loaded
// the sequence number that it reads at.
func (c *Clock) InUse() bool { return c.used.Load() }

// Now is the time. An entry with this deadline, or an earlier one, has expired.
func (c *Clock) Now() uint64 {
	now, _ := c.look()
	return now
}

// look is Now, and how much of the second has gone by.
func (c *Clock) look() (now uint64, fraction time.Duration) {
	t := time.Now
	if c.wall != nil {
		t = c.wall
	}
	wall := t()
	now = uint64(min(max(wall.Unix(), 1), base.MaxDeadline)) // 0 says that nobody asked
	for {
		newest := c.newest.Load()
		switch {
		case now < newest:
			return newest, 0
		case now == newest || c.newest.CompareAndSwap(newest, now):
			return now, time.Duration(wall.Nanosecond())
		}
	}
}

// Stored is the time for the MANIFEST; 0: there are no entries that expire.
func (c *Clock) Stored() uint64 {
	if !c.InUse() {
		return 0
	}
	return max(c.newest.Load(), 1)
}

// Deadline is that of a value that is written now and lives for at least ttl seconds, and
// less than two more. It fails with base.ErrInvalidArgument beyond base.MaxDeadline.
func (c *Clock) Deadline(ttl uint64) (uint64, error) {
	now, fraction := c.look()
	if fraction > 0 {
		now++
	}
	if ttl > base.MaxDeadline-min(now, base.MaxDeadline) {
		return 0, fmt.Errorf("%w: a time to live of %d s ends beyond the year 19391",
			base.ErrInvalidArgument, ttl)
	}
	return now + ttl, nil
}

// Left is how long it is until a deadline, 0 if it is over.
func (c *Clock) Left(deadline uint64) time.Duration {
	now, fraction := c.look()
	if deadline <= now {
		return 0
	}
	if deadline-now > math.MaxInt64/uint64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(deadline-now)*time.Second - fraction
}

// moment is the time of one read: that of its snapshot, or else when it first asks.
type moment struct {
	clock *Clock
	now   uint64 // 0: nobody asked yet
}

// at is the moment of a read at a snapshot, or at present if that is nil.
func (t *Tree) at(snap *Snapshot) moment {
	m := moment{clock: &t.shared.Seqs.Clock}
	if snap != nil {
		m.now = snap.now
	}
	return m
}

// expired reports whether a deadline is over.
func (m *moment) expired(deadline uint64) bool {
	if m.now == 0 {
		m.now = m.clock.Now()
	}
	return deadline <= m.now
}

// live cuts the deadline off the value of an entry that expires, which stands in value from
// index from on. It fails with base.ErrNotFound when the entry has expired.
func (m *moment) live(value []byte, from int) ([]byte, error) {
	_, deadline, ok := base.CutDeadline(value[from:])
	switch {
	case !ok:
		return value[:from], base.NoDeadline()
	case m.expired(deadline):
		return value[:from], base.ErrNotFound
	}
	return value[:len(value)-base.DeadlineLen], nil
}

// NoteExpiring says that the tree has entries that expire, or will have some.
func (t *Tree) NoteExpiring() {
	t.shared.Seqs.Clock.Use()
	if !t.expires.Load() {
		t.expires.Store(true)
	}
}

// Expires reports whether the tree may have entries that expire.
func (t *Tree) Expires() bool { return t.expires.Load() }

// Deadline returns when the value of key in snap, or at present if that is nil, expires; 0:
// never. A key without a value is base.ErrNotFound.
func (t *Tree) Deadline(key []byte, snap *Snapshot) (deadline uint64, err error) {
	if !t.Expires() {
		has, err := t.Has(key, snap)
		if err == nil && !has {
			err = base.ErrNotFound
		}
		return 0, err
	}
	if err := t.present(snap, 0); err != nil {
		return 0, err
	}
	h := hold{tree: t, guard: t.shared.Reads.Enter(), at: t.at(snap)}
	defer h.release(&err)
	var seq base.SeqNum
	if h.state, seq, err = t.stateFor(h.guard, snap); err != nil {
		return 0, err
	}
	r := resolver{fold: mergeop.New()}
	defer r.fold.Free()
	switch err = r.collect(&h, key, seq, sstable.NoValue); {
	case err != nil:
		return 0, err
	case !r.found:
		return 0, base.ErrNotFound
	case r.fold.Len() > 0:
		return 0, nil // the operands have none
	}
	return r.deadline, nil
}
