package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store/wal"
)

// GapError says that a feed cannot go on where it is: what was committed there is in no log any
// more. errors.Is(err, base.ErrGap) holds.
type GapError struct {
	Asked uint64 // the sequence number that is missing
	Next  uint64 // the one from which a feed can begin now; 0: not known
}

// Error says what can be done.
func (e *GapError) Error() string {
	if e.Next == 0 {
		return fmt.Sprintf("%v: sequence number %d is in no log; begin with a copy of the database",
			base.ErrGap, e.Asked)
	}
	return fmt.Sprintf("%v: sequence number %d is in no log; the next one that is: %d", base.ErrGap,
		e.Asked, e.Next)
}

// Is reports whether target is base.ErrGap.
func (e *GapError) Is(target error) bool { return target == base.ErrGap }

// As makes errors.As find the public type, see base.AsPublic.
func (e *GapError) As(target any) bool { return base.AsPublic(e, target) }

// Options says what a feed shows.
type Options struct {
	// Durable holds changes back until they survive a power cut. The default shows them as soon as
	// they are visible in the database.
	Durable bool
}

// Changes is a feed: what was committed, in order, each operation once. Next and TryNext are for
// one goroutine at a time; Close may be called beside them.
type Changes struct {
	hub     *Hub
	durable bool
	wake    chan struct{}

	obsolete atomic.Uint64 // logs before this one are given up

	mu     sync.Mutex  // held while files are read
	next   base.SeqNum // of the next operation
	err    error       // lasts
	closed bool
	log    *reader // of the log that has next; nil: not positioned
	held   part    // read, and not durable yet; batch nil: none
	trim   []byte  // memory for a part of a batch
}

// New returns a feed that begins with sequence number from, 0 being the first one that a log has.
// It fails with a GapError if that is gone, or not given out yet behind the next one.
func (h *Hub) New(from uint64, o Options) (*Changes, error) {
	c := &Changes{hub: h, durable: o.Durable, wake: make(chan struct{}, 1), next: base.SeqNum(from)}
	if err := h.add(c); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.begin()
	if err != nil {
		h.remove(c)
		return nil, err
	}
	return c, nil
}

// catchPanic is deferred where a panic of the file system is to become err. It is no function of
// Env: err would be allocated for each change.
func (c *Changes) catchPanic(err *error) {
	if r := recover(); r != nil {
		*err = c.hub.env.Fail(base.NewPanic(r))
	}
}

// begin checks where the feed begins.
func (c *Changes) begin() (err error) {
	defer c.catchPanic(&err)
	if c.durable && c.hub.env.Follower {
		return base.Invalidf("a follower does not know what its writer has made durable; ask the " +
			"writer, or leave Durable out")
	}
	seen := c.hub.env.Visible() // before the logs: numbers in no log, and not above it, are gone
	logs, err := c.hub.logs()
	if err != nil {
		return err
	}
	visible := c.hub.env.Visible()
	if c.next > visible+1 {
		return fmt.Errorf("the database ends at %d, as it lost the end of its history, or is "+
			"another one: %w", visible, &GapError{Asked: uint64(c.next)})
	}
	if c.next == 0 {
		c.next = seen + 1
		if len(logs) > 0 {
			c.next = max(1, slices.MinFunc(logs, func(a, b log) int {
				return cmp.Compare(a.first, b.first)
			}).first)
		}
		return nil
	}
	if c.next <= seen && !slices.ContainsFunc(logs, func(l log) bool { return l.first <= c.next }) {
		return c.gap(logs)
	}
	return nil
}

// gap is the error for sequence numbers that no log has.
func (c *Changes) gap(logs []log) *GapError {
	e := &GapError{Asked: uint64(c.next)}
	for _, l := range logs {
		if l.first > c.next && (e.Next == 0 || uint64(l.first) < e.Next) {
			e.Next = uint64(l.first)
		}
	}
	return e
}

// Next returns the next change, and waits for it until ctx is done, whose error it then returns. It
// fails with a *GapError, with base.ErrClosed after Close of the feed or the database, with what
// made the database read-only once all that was committed before is returned, and with errors of
// the file system. After an error of the file system or of ctx, Next goes on where it was.
func (c *Changes) Next(ctx context.Context) (Change, error) {
	if ctx == nil {
		return Change{}, base.Invalidf("Next needs a context")
	}
	for {
		change, ok, err := c.TryNext()
		if ok || err != nil {
			return change, err
		}
		if err := ctx.Err(); err != nil {
			return Change{}, err
		}
		c.hub.wait(c.wake)
		ended := c.hub.env.Ended()
		// What was committed before wait, or before the end.
		if change, ok, err = c.TryNext(); !ok && err == nil {
			err = ended
		}
		if ok || err != nil {
			c.hub.forget(c.wake)
			return change, err
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
		}
		c.hub.forget(c.wake)
	}
}

// TryNext is Next without waiting: ok is false if there is nothing yet.
func (c *Changes) TryNext() (change Change, ok bool, err error) {
	c.mu.Lock()
	defer c.unlock()
	if c.closed {
		return Change{}, false, base.ErrChangesClosed
	}
	if c.err != nil {
		return Change{}, false, c.err
	}
	rec, ok, err := c.record()
	if err != nil && lasts(err) {
		c.err = err
		c.unposition()
	}
	if !ok || err != nil {
		return Change{}, false, err
	}
	change = Change{Seq: uint64(rec.first), Batch: rec.batch, keyspace: c.hub.env.Keyspace}
	c.next = rec.last + 1
	return change, true, nil
}

// lasts reports whether a feed does not go on after an error.
func lasts(err error) bool {
	var p *base.Panic
	return errors.Is(err, base.ErrGap) || errors.Is(err, base.ErrCorruption) || errors.As(err, &p)
}

// Position is the sequence number of the next operation: a feed that begins there goes on.
func (c *Changes) Position() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.next)
}

// KeyspaceName is the name of a keyspace by its number, "" if it was dropped.
func (c *Changes) KeyspaceName(number uint32) string {
	return c.hub.env.Keyspace(base.KeyspaceID(number))
}

// Close ends the feed; a Next under way fails with base.ErrClosed. Further calls do nothing.
func (c *Changes) Close() error {
	c.mu.Lock()
	c.closed = true
	c.unposition()
	c.mu.Unlock()
	c.hub.remove(c)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// record returns what the feed shows next.
//
// REQUIRES: c.mu held.
func (c *Changes) record() (rec part, ok bool, err error) {
	defer c.catchPanic(&err)
	env := &c.hub.env
	if c.held.batch != nil {
		if !env.Durable(c.held.log, c.held.end) {
			return part{}, false, nil
		}
		rec, c.held = c.held, part{}
		return rec, true, nil
	}
	for tries := 0; ; tries++ {
		visible := env.Visible()
		if c.next > visible {
			return part{}, false, nil
		}
		if err := c.findLog(); err != nil {
			return part{}, false, err
		}
		at := c.log.End()
		rec, err := c.log.next(c.next)
		switch {
		case tries < maxTries && (errors.Is(err, wal.ErrNotYet) || err == nil &&
			rec.first >= c.log.limit):
			// What is visible is in a log, but in another one.
			c.unposition()
			continue
		case errors.Is(err, wal.ErrNotYet):
			return part{}, false, c.missing(visible)
		case err != nil:
			return part{}, false, err
		case rec.last > visible && tries < maxTries:
			// Bytes of a write that failed, read before the next one replaced them.
			if err := c.reopen(at); err != nil {
				return part{}, false, err
			}
			continue
		case rec.first > c.next:
			// The next log has what is from its first number on.
			return part{}, false, &GapError{Asked: uint64(c.next),
				Next: uint64(min(rec.first, c.log.limit))}
		}
		return c.show(rec)
	}
}

// findLog opens the log of c.next, unless it is open, or opens it anew after it was cut back.
func (c *Changes) findLog() error {
	if c.log == nil || c.next >= c.log.limit {
		if err := c.position(); err != nil {
			return err
		}
	}
	if c.log.cuts != c.hub.env.Cuts() {
		return c.reopen(c.log.End())
	}
	return nil
}

// maxTries is how often a feed looks again for the log of a visible operation.
const maxTries = 3

// show returns what is new of a record and counts, unless it is to be held back.
func (c *Changes) show(rec part) (part, bool, error) {
	if rec.first < c.next || rec.last >= c.log.limit {
		c.trim = cut(c.trim, rec.batch, c.next, c.log.limit)
		rec.batch, rec.first, rec.last = c.trim, c.next, min(rec.last, c.log.limit-1)
	}
	if c.durable && !c.hub.env.Durable(rec.log, rec.end) {
		rec.batch = slices.Clone(rec.batch)
		c.held = rec
		return part{}, false, nil
	}
	return rec, true, nil
}

// missing is the error if no log has c.next although it is visible: all logs were read to their
// ends. Where one is damaged, that is the error; otherwise c.next was given to a table, or its log
// is obsolete.
func (c *Changes) missing(visible base.SeqNum) error {
	logs, err := c.hub.logs()
	if err == nil {
		err = c.hub.env.judge(c.log, logs)
	}
	if err != nil {
		return err
	}
	e := c.gap(logs)
	if e.Next == 0 {
		e.Next = uint64(visible) + 1
	}
	return e
}

// position opens the log of c.next.
func (c *Changes) position() error {
	c.unposition()
	logs, err := c.hub.logs()
	if err != nil {
		return err
	}
	limit := base.MaxSeqNum + 1
	for _, l := range slices.Backward(logs) {
		if l.first <= c.next {
			if c.log, err = c.hub.env.open(l.num, 0, limit); errors.Is(err, fs.ErrNotExist) {
				return c.gap(logs) // deleted meanwhile
			}
			return err
		}
		limit = min(limit, l.first)
	}
	return c.gap(logs)
}

// reopen reads the log anew from a place on.
func (c *Changes) reopen(at int64) error {
	num, limit := c.log.num, c.log.limit
	c.unposition()
	var err error
	if c.log, err = c.hub.env.open(num, at, limit); errors.Is(err, fs.ErrNotExist) {
		return c.position()
	}
	return err
}

// unposition closes the log. c.mu is held, and the file system may end the goroutine.
func (c *Changes) unposition() {
	log := c.log
	if c.log = nil; log == nil {
		return
	}
	var p *base.Panic
	if err := base.Alone(log.file.Close); errors.As(err, &p) { // else it was only read
		_ = c.hub.env.Fail(err)
	}
}

// release gives up a log before first. It does not wait for reads.
func (c *Changes) release(first uint64) {
	c.obsolete.Store(first)
	if c.mu.TryLock() {
		c.unlock() // otherwise its holder does that
	}
}

// unlock releases c.mu, and gives up the log if it is obsolete.
func (c *Changes) unlock() {
	for {
		first := c.obsolete.Load()
		if c.log != nil && c.log.num < first {
			c.unposition()
		}
		c.mu.Unlock()
		if c.obsolete.Load() == first || !c.mu.TryLock() {
			return
		}
	}
}
