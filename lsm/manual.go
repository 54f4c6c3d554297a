package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/compact"
)

// errYield ends a step of a manual compaction that stands in the way of level 0.
var errYield = errors.New("level 0 goes first")

// CompactRange merges everything from start up to, not including, limit into as
// few tables as possible and drops what nobody can read any more, as far as this
// opening of the database wrote it; nil is no bound. The memtable is flushed first.
// It goes in steps: automatic compactions run beside and between them, and a writer
// that waits for level 0 ends a step that is in the way. It works although automatic
// compaction is paused. Close ends it with ErrClosed.
func (db *DB) CompactRange(start, limit []byte) error {
	return db.CompactRangeContext(context.Background(), start, limit)
}

// CompactRangeContext is CompactRange that gives up, with the context's error
// and nothing lost, when ctx is done.
func (db *DB) CompactRangeContext(ctx context.Context, start, limit []byte) (err error) {
	if ctx == nil {
		return fmt.Errorf("%w: CompactRangeContext needs a context", ErrInvalidArgument)
	}
	defer db.catch(&err)
	if start != nil && limit != nil && db.cmp.Cmp(start, limit) > 0 {
		return fmt.Errorf("%w: range ends before it starts", ErrInvalidArgument)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- db.Flush() }()
	select {
	case err = <-flushed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	v := db.tree.Acquire()
	if v == nil {
		return ErrClosed
	}
	last, some := compact.LastBelow(v.Version, db.cmp, limit)
	v.Unref()
	if !some {
		return nil
	}
	b := db.bg
	unwatch := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		b.cond.Broadcast()
		b.mu.Unlock()
	})
	defer unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	for m := compact.NewManual(start, last); ; {
		done, err := b.manualStepLocked(ctx, m)
		if done || err != nil {
			return err
		}
	}
}

// manualStepLocked does the next step of a manual compaction, as soon as those that
// are in its way have ended. It unlocks b.mu meanwhile.
func (b *background) manualStepLocked(ctx context.Context, m *compact.Manual) (done bool, err error) {
	plan, ctx, done, err := b.beginStepLocked(ctx, m)
	if done || err != nil {
		return done, err
	}
	b.mu.Unlock()
	err = <-plan
	b.mu.Lock()
	switch {
	case err == nil:
		m.Done()
	case !errors.Is(err, errStopped):
		return false, err
	case errors.Is(context.Cause(ctx), errYield):
		m.Stopped()
	} // otherwise Close, the caller's context, which show next time, or PauseCompaction
	return false, nil
}

// beginStepLocked starts the next step when nothing is in its way. The context is
// the step's.
func (b *background) beginStepLocked(ctx context.Context, m *compact.Manual) (end <-chan error, step context.Context, done bool, err error) {
	b.manualWaits++
	defer func() {
		b.manualWaits--
		b.scheduleLocked()
		b.cond.Broadcast()
	}()
	for {
		if err := errors.Join(ctx.Err(), b.db.writable()); err != nil {
			return nil, nil, false, err
		}
		if b.closing {
			return nil, nil, false, ErrClosed
		}
		if end, step, done = b.tryStepLocked(ctx, m); end != nil || done {
			return end, step, done, nil
		}
		if len(b.running) == 0 && !b.stop.Load() && b.db.writable() == nil {
			return nil, nil, false, errors.New("no step of the manual compaction can be planned")
		}
		b.cond.Wait()
	}
}

// tryStepLocked starts the next step unless something is in its way.
func (b *background) tryStepLocked(ctx context.Context, m *compact.Manual) (end <-chan error, step context.Context, done bool) {
	v := b.db.tree.Acquire()
	if v == nil || b.stop.Load() {
		if v != nil {
			v.Unref()
		}
		return nil, nil, false
	}
	defer v.Unref()
	plan := b.pickLocked(func(c compact.Config) (plan *compact.Plan) {
		plan, done = m.Next(v.Version, b.running, c)
		return plan
	})
	if plan == nil {
		return nil, nil, done
	}
	step, cancel := context.WithCancelCause(ctx)
	b.manual[plan] = cancel
	return b.startLocked(step, plan, v.Version), step, false
}

// yieldManualLocked stops the steps of manual compactions if none of the running
// merges takes from level 0, for which a writer waits.
func (b *background) yieldManualLocked() {
	for _, plan := range b.running {
		if len(plan.Inputs[0]) > 0 {
			return
		}
	}
	for _, stop := range b.manual {
		stop(errYield)
	}
}
