package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/memtable"
	"github.com/loamdb/loam/internal/tree/picker"
)

// nextFlushLocked is the tree whose flush frees the oldest log, or nil when no memtable is sealed.
func (s *Scheduler) nextFlushLocked() (next *Keyspace) {
	var oldest uint64
	s.trees.sealed = slices.DeleteFunc(s.trees.sealed, func(k *Keyspace) (none bool) {
		state := k.Acquire()
		if state == nil {
			return false
		}
		defer state.Unref()
		if none = k.dropped || len(state.Sealed) == 0; none {
			k.isSealed = false
		} else if log, _ := state.OldestLog(nil); next == nil || log < oldest {
			next, oldest = k, log
		}
		return none
	})
	return next
}

// flushLoop flushes sealed memtables, oldest first, until there is none.
func (s *Scheduler) flushLoop() {
	for {
		s.mu.Lock()
		k := s.nextFlushLocked()
		var state *tree.ReadState
		if k != nil && !s.closing && s.opts.Failure() == nil {
			state = k.Acquire()
		}
		if state == nil || len(state.Sealed) == 0 {
			s.flushing = false
			s.pace.k = nil
			s.updatePaceLocked(time.Now())
			s.trimLaterLocked()
			s.scheduleLocked()
			s.cond.Broadcast()
			s.mu.Unlock()
			if state != nil {
				state.Unref()
			}
			return
		}
		kick := s.kick
		s.flush.begun++
		oldest := state.Sealed[len(state.Sealed)-1]
		s.beginPaceLocked(k, oldest)
		s.mu.Unlock()
		s.prepareLog()
		job, err := s.beginFlushJob(k)
		if err == nil {
			s.onPace(func(now time.Time) { s.pace.begun = now })
			next, _ := state.OldestLog(oldest)
			err = base.Alone(func() error { return s.flushMemTable(k, oldest, next, job) })
		}
		job.End()
		state.Unref()
		s.finishedFlush(k, err, kick)
	}
}

// prepareLog has the next log ready. The rotation that led to a flush took the one that
// was; before the flush ends there may be another rotation, and a writer that makes its log
// itself waits for the directory's sync.
func (s *Scheduler) prepareLog() {
	if err := base.Alone(func() error { s.opts.WAL.Prepare(); return nil }); err != nil {
		_ = s.fail(err)
	}
}

// finishedFlush records the outcome, and after a failure waits before the next
// try. A failure that began before Retry does not describe the state after it.
func (s *Scheduler) finishedFlush(k *Keyspace, err error, kick chan struct{}) {
	if err != nil {
		s.failed("flush", err) // first: after a panic the database is read-only when Flush fails
	}
	s.mu.Lock()
	f, now := &s.flush, time.Now()
	s.pace.end(err != nil, now)
	s.updatePaceLocked(now)
	f.err = nil
	if err == nil {
		f.pause = 0
		k.quiet.flushed(now)
	}
	if err == nil || kick != s.kick {
		s.scheduleLocked()
		s.cond.Broadcast()
		s.mu.Unlock()
		return
	}
	f.err = err
	f.pause = longer(f.pause)
	f.failed = f.begun
	pause := f.pause
	s.cond.Broadcast()
	s.mu.Unlock()
	select {
	case <-time.After(pause):
	case <-kick:
	}
}

// flushMemTable writes a sealed memtable into tables and makes those live. See WriteMemTable.
func (s *Scheduler) flushMemTable(k *Keyspace, m *tree.Sealed, next uint64,
	job *budget.Job) (err error) {
	defer s.catchPanic(&err)
	s.opts.Events.FlushBegin()
	start := time.Now()
	m.Mem.Seal()
	var result compact.Result
	if err = s.mendManifest(); err == nil {
		err = s.writeMemTable(k, m, next, job, func(r compact.Result) error {
			result = r
			if s.readSince(r) {
				s.warm(context.Background(), []compact.Result{r})
			}
			s.openDense(r)
			return s.installFlush(k, m, r)
		})
	}
	if errors.Is(err, errDropped) {
		err = nil
	}
	d := time.Since(start)
	s.stats.flushed(m.Mem.Bytes(), result, d, err)
	s.opts.Events.FlushEnd(m.Mem.Bytes(), result.Added, d, err)
	return err
}

// WriteMemTable writes a memtable into tables of level 0, or deeper where that overlaps nothing,
// makes them and their names durable, and calls install. The tables of a failed write are deleted;
// those of a failed install are not, as the manifest may have them.
//
// next is the first log with entries of the keyspace that neither tables nor the memtable have, or
// a smaller number; 0: it is not known. The table records it, which holds as soon as the table is
// whole: a flush writes one table, after those of older memtables.
func (s *Scheduler) WriteMemTable(k *Keyspace, m *tree.Sealed, next uint64,
	install func(compact.Result) error) error {
	return s.writeMemTable(k, m, next, nil, install)
}

func (s *Scheduler) writeMemTable(k *Keyspace, m *tree.Sealed, next uint64, job *budget.Job,
	install func(compact.Result) error) error {
	if m.Mem.Len() == 0 {
		return install(compact.Result{})
	}
	smallest, largest, err := extent(m.Mem)
	if err != nil {
		return err
	}
	if smallest == nil {
		return install(compact.Result{})
	}
	version, level, plan := s.placeFlush(k, smallest, largest)
	if version == nil {
		return errDropped
	}
	defer func() {
		s.mu.Lock()
		s.trees.end(k, plan)
		s.mu.Unlock()
		version.Unref()
	}()
	env := s.env(k.Tree, level, nil, s.paceFlush, next)
	env.Stop = func() error {
		job.Progress()
		s.opts.Account.Settle()
		if s.stopFlush.Load() || s.opts.Failure() != nil {
			return errStopped
		}
		return nil
	}
	env.Progress = func(entries uint64) {
		s.onPace(func(now time.Time) { s.pace.report(entries, now) })
	}
	env.ValueFiles = s.valueFiles(s.paceFlush, false)
	dels, readers := m.Mem.RangeDels(), s.listReaders(env) // first: the comparer may panic
	result, err := compact.Flush(s.separated(m.Mem.NewSource()), uint64(m.Mem.Points()), dels,
		version, level, 0, env, readers)
	s.countFolds(result)
	if err == nil && len(result.Added) > 0 {
		err = s.opts.Files.SyncDir()
	}
	if err != nil {
		s.discard(result)
		return err
	}
	for _, a := range result.Added {
		a.Meta.Newest = m.Last
	}
	return install(result)
}

// placeFlush chooses the level of a flush and reserves it.
func (s *Scheduler) placeFlush(k *Keyspace, smallest,
	largest []byte) (*manifest.Version, int, *picker.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock() // the comparer may panic
	version := s.opts.Manifest.Current(k.ID())
	if version == nil {
		return nil, 0, nil
	}
	level := picker.FlushLevel(version, k.running, k.Comparer(), smallest, largest)
	plan := picker.FlushPlan(level, smallest, largest)
	if level > 0 {
		s.trees.start(k, plan)
	}
	return version, level, plan
}

// extent is the smallest and the largest user key of a memtable, which is not empty; both are
// nil if it has nothing but range tombstones that delete nothing.
func extent(t *memtable.MemTable) (smallest, largest []byte, err error) {
	if t.Points() > 0 {
		if smallest, largest, err = extentOfEntries(t); err != nil {
			return nil, nil, err
		}
	}
	cmp := t.Comparer()
	for _, l := range t.RangeDels() {
		start, limit := l.Ends()
		if smallest == nil || cmp.Cmp(start, smallest) < 0 {
			smallest = start
		}
		if largest == nil || cmp.Cmp(limit, largest) > 0 {
			largest = limit
		}
	}
	return smallest, largest, nil
}

func extentOfEntries(t *memtable.MemTable) (smallest, largest []byte, err error) {
	src := t.NewSource()
	defer src.Close()
	var e base.Chunk
	i, err := src.First(&e)
	if i >= 0 {
		smallest = slices.Clone(e.Key(i))
		i, err = src.Last(&e)
	}
	if err == nil && i < 0 {
		err = fmt.Errorf("a memtable of %d entries hands out none", t.Len())
	}
	if err != nil {
		return nil, nil, err
	}
	return smallest, slices.Clone(e.Key(i)), nil
}

// FlushesBegun is how many flushes began so far, for WaitFlushed.
func (s *Scheduler) FlushesBegun() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush.begun
}

// WaitFlushed returns when the memtables of a tree that are sealed now are in
// tables, or with the error that keeps them from it. Of flushes that fail, those up
// to number since do not count: there may be space by now. It fails with
// base.ErrClosed if the tree is closed, and base.ErrNoKeyspace if it is dropped.
func (s *Scheduler) WaitFlushed(k *Keyspace, since uint64) error {
	state := k.Acquire()
	if state == nil {
		return k.Gone()
	}
	defer state.Unref()
	if len(state.Sealed) == 0 {
		return nil
	}
	newest := state.Sealed[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch err := s.opts.Failure(); {
		case err != nil:
			return err
		case s.closing || s.stopFlush.Load():
			return base.ErrDatabaseClosed
		case k.dropped:
			return base.ErrNoKeyspace
		case !slices.Contains(k.Sealed(), newest):
			return nil
		case s.flush.err != nil && s.flush.failed > since:
			return s.flush.err
		}
		s.scheduleLocked()
		s.cond.Wait()
	}
}
