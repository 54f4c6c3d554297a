package work

import (
	"context"
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Why a writer waits.
const (
	// as many memtables as there may be wait for their flush, and the current one fills up
	StallMemTables = "memtables"
	StallLevel0    = "level0" // level 0 has as many tables as it may have
	StallDebt      = "debt"   // level 0 is filling up, or the tables take much space
)

// MakeRoom makes sure that the memtable of a tree takes a group of so many bytes and
// entries. It delays the writer (delay) and rotates a full memtable, as soon as another
// one may be sealed (waitForRoom). Commit leader only.
func (s *Scheduler) MakeRoom(t *tree.Tree, bytes int64, entries int, mode write.Mode) error {
	if err := s.delay(bytes, mode); err != nil {
		return err
	}
	if s.opts.Account != nil && s.opts.Account.Wrote(bytes) { // no call where memory is not shared
		if err := s.boundMemory(s.opts.WAL.Rotate, mode); err != nil {
			return err
		}
	}
	if fits, err := t.HasRoom(bytes, entries); fits || err != nil {
		t.BeginLog(s.opts.WAL.Num()) // another tree may have begun it
		return err
	}
	if err := s.waitForRoom(t, mode); err != nil {
		return err
	}
	return s.rotate(t, bytes, entries)
}

// Seal rotates the memtable of a tree if it has any entry. Commit leader only.
func (s *Scheduler) Seal(t *tree.Tree) error {
	state := t.Acquire()
	if state == nil {
		return nil
	}
	defer state.Unref()
	if state.Mem.Len() == 0 {
		return nil
	}
	if err := s.waitForRoom(t, 0); err != nil {
		return err
	}
	return s.rotate(t, 0, 0)
}

// rotate seals the memtable of a tree and starts another one, with room for a group
// of so many bytes and entries and with a log of its own. Commit leader only.
func (s *Scheduler) rotate(t *tree.Tree, bytes int64, entries int) error {
	if err := t.Rotate(bytes, entries, s.opts.WAL.Rotate); err != nil {
		return err
	}
	s.wakeSealed(t)
	return nil
}

// delay makes the writer sleep in proportion to the bytes it writes and to the debt, or to the rest
// of the flush if that is more, a millisecond or more at a time. Commit leader only.
func (s *Scheduler) delay(bytes int64, mode write.Mode) error {
	perKiB, cause := s.delayNanos.Load(), StallDebt
	if pace := s.paceNanos.Load(); pace > perKiB && mode&write.NoStall == 0 { // there still is room
		perKiB, cause = pace, StallMemTables
	}
	if perKiB == 0 {
		s.owed = 0
		return nil
	}
	s.owed += bytes * perKiB >> 10
	if s.owed < int64(time.Millisecond) {
		return nil
	}
	if mode&write.NoStall != 0 {
		s.owed = int64(time.Millisecond)
		return fmt.Errorf("%w: compaction is behind", base.ErrBusy)
	}
	d := min(time.Duration(s.owed), 100*time.Millisecond)
	s.owed = 0
	time.Sleep(d)
	s.stalled(cause, d)
	return nil
}

// noteVersion notes that k has a new version. It derives the write delay from level 0 and the space
// taken of the tree under most pressure: nothing below half of the way to a limit, then growing
// smoothly, without bound as the limit of level 0 comes near, so that writers and compactions meet
// in between. At three quarters of the limit it is 10 us per KiB.
func (s *Scheduler) noteVersion(k *keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trees.changed(k)
	pressure := 0.0
	if state := k.Acquire(); state != nil {
		if !k.dropped {
			pressure = picker.Pressure(state.Version, s.configLocked(k))
		}
		state.Unref()
	}
	pressure = s.trees.press(k, pressure)
	if s.paused > 0 {
		pressure = 0 // the caller wants no compaction: waiting would not help
	}
	s.delayNanos.Store(int64(10_000 * min(pressure/max(1-pressure, 0.01), 100)))
}

// waitForRoom returns when another memtable of a tree may be sealed: at most
// MaxMemTables in memory, and level 0 below its limit. It fails when the job that
// would make room keeps failing. Commit leader only.
func (s *Scheduler) waitForRoom(t *tree.Tree, mode write.Mode) error {
	var start time.Time
	var cause string
	s.mu.Lock()
	defer func() {
		s.waitsFor = ""
		s.mu.Unlock()
		if cause != "" {
			s.opts.EndStall()
			s.stalled(cause, time.Since(start))
		}
	}()
	for {
		if err := s.opts.Writable(); err != nil {
			return err
		}
		k, state := s.spaceLocked(t), t.Acquire()
		if state == nil {
			return t.Gone()
		}
		now, err := s.noRoomLocked(state)
		state.Unref()
		if k == nil { // dropped meanwhile
			return t.Gone()
		}
		if now == "" || err != nil {
			return err
		}
		if mode&write.NoStall != 0 {
			return fmt.Errorf("%w: waiting for %s", base.ErrBusy, now)
		}
		if cause == "" {
			if err := base.NotWithin(); err != nil {
				return err
			}
			cause, start = now, time.Now()
			s.opts.BeginStall()
		}
		s.scheduleLocked()
		if now == StallLevel0 {
			s.yieldManualLocked(k)
		}
		if !s.underWayLocked(k, now) {
			return s.opts.Writable() // nothing would end the wait
		}
		s.waitsFor = now
		s.cond.Wait()
	}
}

// noRoomLocked says why no other memtable may be sealed now, or "". It fails when
// the job that would make room has failed.
func (s *Scheduler) noRoomLocked(state *tree.ReadState) (cause string, err error) {
	switch {
	case len(state.Sealed) >= s.limits.Load().MaxMemTables-1:
		if s.flush.err != nil {
			err = fmt.Errorf("no room for the write, as flushing fails: %w", s.flush.err)
		}
		return StallMemTables, err
	case len(state.Version.Levels[0].Files) >= s.limits.Load().L0Stop && s.paused == 0:
		if s.compaction.err != nil {
			err = fmt.Errorf("no room for the write, as compaction fails: %w", s.compaction.err)
		}
		return StallLevel0, err
	}
	return "", nil
}

// underWayLocked reports whether work runs, or waits on a timer, after which a waiting writer
// checks the cause again. A writer never waits without: where
// Pick finds nothing, level 0 is merged by force, and if even that is impossible
// the write goes on.
func (s *Scheduler) underWayLocked(k *keyspace, cause string) bool {
	switch {
	case cause == StallMemTables:
		return s.flushing
	case len(k.running) > 0 || s.compaction.retry != nil || s.workers >= s.limits.Load().MaxJobs ||
		s.waitsForWorker():
		return true
	}
	s.forced++
	state := k.Acquire()
	if state == nil {
		return false
	}
	defer state.Unref()
	plan := s.pickLocked(k, func(c picker.Config) *picker.Plan {
		return picker.Force(state.Version, k.running, c)
	})
	if plan != nil {
		s.startLocked(context.Background(), k, plan, state.Version)
	}
	return plan != nil
}

// stalled counts and tells of a wait. The caller does not hold s.mu.
func (s *Scheduler) stalled(cause string, d time.Duration) {
	s.stats.stalled(cause, d)
	s.opts.Events.WriteStall(cause, d)
}
