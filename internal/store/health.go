package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/events"
	"github.com/loamdb/loam/internal/store/work"
	"github.com/loamdb/loam/internal/store/write"
)

// Health says whether a database takes writes. The first failure that cannot heal
// makes it read-only for good. It is safe for concurrent use.
type Health struct {
	Listener // told of events
	dir      string
	logger   *slog.Logger // delivered by queue
	queue    *events.Queue
	readOnly bool // the database was opened read-only

	Closing atomic.Bool           // Close was called: writes are refused
	failure atomic.Pointer[error] // why the database is read-only for good
	workers atomic.Pointer[workers]
}

// init makes it, a zero Health, that of a database in dir.
func (h *Health) init(dir string, o *Options) {
	h.dir, h.readOnly = dir, o.ReadOnly
	h.queue = events.New(h.panickedAt)
	h.Listener = o.Listener(h.queue)
	h.logger = slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		h.logger = h.queue.Logger(o.Logger)
	}
}

// EventsDropped is how many calls of the listener and records of the logger were
// dropped, because earlier ones take long.
func (h *Health) EventsDropped() uint64 { return h.queue.Dropped() }

// Warn logs a failure that the database survives.
func (h *Health) Warn(what string, err error) { h.logger.Warn(what, "dir", h.dir, "err", err) }

// JobFailed tells of background work that is tried again.
func (h *Health) JobFailed(job string, err error) {
	h.Warn(job+" failed; it will be retried", err)
	h.Listener.JobFailed(job, err)
}

// MergeFailed tells of a merge operator that failed in a flush or compaction.
func (h *Health) MergeFailed(err error) {
	h.Warn("the operands stay as they are", err)
	h.Listener.MergeFailed(err)
}

// workers is what a failure stops.
type workers struct {
	pipeline *write.Pipeline
	jobs     *work.Scheduler
	feeds    Feeds
}

// connect names what a failure stops. A failure that came before stops it now.
func (h *Health) connect(p *write.Pipeline, s *work.Scheduler, f Feeds) {
	h.workers.Store(&workers{p, s, f})
	if err := h.Failed(); err != nil {
		p.Poison(err)
	}
}

// Fail makes the database read-only for good, with err as the cause in every later error, and
// returns that. A failure that heals (base.Transient) is returned as it is. Reads and Close go on
// working. The caller does not hold the scheduler's lock.
func (h *Health) Fail(err error) error {
	if base.Transient(err) {
		return err
	}
	cause, first := h.setFailure(err)
	if w := h.workers.Load(); first && w != nil {
		w.jobs.Wake()
	}
	return cause
}

// setFailure is Fail without the Wake, for the scheduler, which wakes its waiters
// itself.
func (h *Health) setFailure(err error) (cause error, first bool) {
	cause = err
	if !errors.Is(err, base.ErrReadOnly) {
		cause = fmt.Errorf("%w: %w", base.ErrReadOnly, err)
	}
	if !h.failure.CompareAndSwap(nil, &cause) {
		return h.Failed(), false
	}
	if w := h.workers.Load(); w != nil {
		w.pipeline.Poison(cause)
		w.feeds.Wake()
	}
	h.logger.Error("database is now read-only", "dir", h.dir, "cause", err)
	h.ReadOnly(err)
	return cause, true
}

// Failed returns why the database is read-only for good, or nil.
func (h *Health) Failed() error {
	if p := h.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Writable returns why the database takes no writes, or nil.
func (h *Health) Writable() error {
	switch {
	case h.Closing.Load():
		return base.ErrDatabaseClosed
	case h.failure.Load() != nil:
		return h.Failed()
	case h.readOnly:
		return fmt.Errorf("%w: it was opened so", base.ErrReadOnly)
	}
	return nil
}

// panicked makes the database read-only after a panic, of the engine or of what the
// user plugged in.
func (h *Health) panicked(r any) error { return h.Fail(base.NewPanic(r)) }

// panickedAt is panicked for a panic that another goroutine recovered.
func (h *Health) panickedAt(v any, stack []byte) { h.Fail(&base.Panic{Value: v, Stack: stack}) }

// guardedClock is a clock of the program that does not panic once the database is open: locks are
// held when it is asked, also by timers. A panic makes the database read-only, and is a time before
// all others, so that tree.Clock stands still. Open returns a panic.
func (db *DB) guardedClock(wall func() time.Time) func() time.Time {
	return func() (now time.Time) {
		closing := db.health.Closing.Load()
		if db.home == nil || db.home.Tree.Closed() && !closing {
			return wall()
		}
		defer func() {
			r := recover()
			if r == nil || closing {
				return
			}
			if _, first := db.health.setFailure(base.NewPanic(r)); first {
				go db.jobs.Wake() // the caller may hold the scheduler's lock
			}
		}()
		return wall()
	}
}

// CatchPanic is deferred where a panic is to become err and the end of writing.
func (h *Health) CatchPanic(err *error) {
	if r := recover(); r != nil {
		*err = h.panicked(r)
	}
}
