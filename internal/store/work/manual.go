package work

import (
	"context"
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/picker"
)

// errYield ends a step of a manual compaction that stands in the way of level 0.
var errYield = errors.New("level 0 goes first")

// CompactRange merges what a version of a tree has from start up to, not including, limit into as
// few tables as possible; nil is no bound. It goes in steps, beside and between which automatic
// compactions run. When ctx is done it fails with its error, nothing being lost.
func (s *Scheduler) CompactRange(ctx context.Context, k *Keyspace, start,
	limit []byte) (err error) {
	defer s.catchPanic(&err)
	state := k.Acquire()
	if state == nil {
		return k.Gone()
	}
	last, some := func() ([]byte, bool) {
		defer state.Unref() // the comparer may panic
		return picker.LastBelow(state.Version, k.Comparer(), limit)
	}()
	if !some {
		return nil
	}
	m := picker.NewManual(start, last)
	if filter, _ := k.Filter(); filter != nil {
		m.RewriteBelow(s.opts.Manifest.NewFileNum())
	}
	unwatch := context.AfterFunc(ctx, s.Wake)
	defer unwatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		done, err := s.manualStepLocked(ctx, k, m)
		if done || err != nil {
			return err
		}
	}
}

// manualFirstLocked reports whether a manual compaction takes its turn before
// further automatic ones: while level 0 is far from making writers wait.
func (s *Scheduler) manualFirstLocked(k *Keyspace, v *manifest.Version) bool {
	return k.manualWaits > 0 && len(v.Levels[0].Files) < max(s.limits.Load().L0Trigger,
		s.limits.Load().L0Stop/2)
}

// manualStepLocked does the next step of a manual compaction, as soon as those that
// are in its way have ended. It unlocks s.mu meanwhile.
func (s *Scheduler) manualStepLocked(ctx context.Context, k *Keyspace,
	m *picker.Manual) (done bool, err error) {
	plan, ctx, done, err := s.beginStepLocked(ctx, k, m)
	if done || err != nil {
		return done, err
	}
	s.mu.Unlock()
	err = <-plan
	s.mu.Lock()
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

// beginStepLocked starts the next step when nothing is in its way. The context is the step's.
func (s *Scheduler) beginStepLocked(ctx context.Context, k *Keyspace,
	m *picker.Manual) (end <-chan error, step context.Context, done bool, err error) {
	k.manualWaits++
	defer func() {
		k.manualWaits--
		s.scheduleLocked()
		s.cond.Broadcast()
	}()
	for {
		switch err := errors.Join(ctx.Err(), s.opts.Writable()); {
		case err != nil:
			return nil, nil, false, err
		case s.closing:
			return nil, nil, false, base.ErrDatabaseClosed
		case k.dropped:
			return nil, nil, false, base.ErrNoKeyspace
		}
		if end, step, done = s.tryStepLocked(ctx, k, m); end != nil || done {
			return end, step, done, nil
		}
		if len(k.running) == 0 && !s.stop.Load() && s.opts.Writable() == nil {
			return nil, nil, false, errors.New("no step of the manual compaction can be planned")
		}
		s.cond.Wait()
	}
}

// tryStepLocked starts the next step unless something is in its way.
func (s *Scheduler) tryStepLocked(ctx context.Context, k *Keyspace,
	m *picker.Manual) (end <-chan error, step context.Context, done bool) {
	state := k.Acquire()
	if state == nil || s.stop.Load() {
		if state != nil {
			state.Unref()
		}
		return nil, nil, false
	}
	defer state.Unref()
	plan := s.pickLocked(k, func(c picker.Config) (plan *picker.Plan) {
		plan, done = m.Next(state.Version, k.running, c)
		return plan
	})
	if plan == nil {
		return nil, nil, done
	}
	step, cancel := context.WithCancelCause(ctx)
	if k.manual == nil {
		k.manual = map[*picker.Plan]context.CancelCauseFunc{}
	}
	k.manual[plan] = cancel
	return s.startLocked(step, k, plan, state.Version), step, false
}

// yieldManualLocked stops the steps of a tree's manual compactions if a writer waits for level 0
// and no running merge reads from it.
func (s *Scheduler) yieldManualLocked(k *Keyspace) {
	for _, plan := range k.running {
		if len(plan.Inputs[0]) > 0 {
			return
		}
	}
	for _, stop := range k.manual {
		stop(errYield)
	}
}
