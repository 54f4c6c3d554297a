package lsm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/jobs"
)

// health says whether a database takes writes. The first failure that cannot heal
// makes it read-only for good. It is safe for concurrent use.
type health struct {
	notifier
	readOnly bool // the database was opened read-only

	closing atomic.Bool           // Close was called: writes are refused
	failure atomic.Pointer[error] // why the database is read-only for good
	workers atomic.Pointer[workers]
}

// workers is what a failure stops.
type workers struct {
	pipeline *commit.Pipeline
	jobs     *jobs.Scheduler
}

// connect names what a failure stops. A failure that came before stops it now.
func (h *health) connect(p *commit.Pipeline, s *jobs.Scheduler) {
	h.workers.Store(&workers{p, s})
	if err := h.failed(); err != nil {
		p.Poison(err)
	}
}

// fail makes the database read-only for good, with err as the cause in every
// later error, and returns that. Reads and Close go on working. The caller does not
// hold the scheduler's lock.
func (h *health) fail(err error) error {
	cause, first := h.setFailure(err)
	if w := h.workers.Load(); first && w != nil {
		w.jobs.Wake()
	}
	return cause
}

// setFailure is fail without the Wake, for the scheduler, which wakes its waiters
// itself.
func (h *health) setFailure(err error) (cause error, first bool) {
	cause = err
	if !errors.Is(err, ErrReadOnly) {
		cause = fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if !h.failure.CompareAndSwap(nil, &cause) {
		return h.failed(), false
	}
	if w := h.workers.Load(); w != nil {
		w.pipeline.Poison(cause)
	}
	h.readOnlySince(err)
	return cause, true
}

// failed returns why the database is read-only for good, or nil.
func (h *health) failed() error {
	if p := h.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// writable returns why the database takes no writes, or nil.
func (h *health) writable() error {
	switch {
	case h.closing.Load():
		return ErrClosed
	case h.failure.Load() != nil:
		return h.failed()
	case h.readOnly:
		return fmt.Errorf("%w: it was opened so", ErrReadOnly)
	}
	return nil
}

// panicked makes the database read-only after a panic, of the engine or of what the
// user plugged in.
func (h *health) panicked(r any) error { return h.fail(base.NewPanic(r)) }

// panickedAt is panicked for a panic that another goroutine recovered.
func (h *health) panickedAt(v any, stack []byte) { h.fail(&base.Panic{Value: v, Stack: stack}) }

// catchPanic is deferred where a panic is to become err and the end of writing.
func (h *health) catchPanic(err *error) {
	if r := recover(); r != nil {
		*err = h.panicked(r)
	}
}
