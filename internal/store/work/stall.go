package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Why a writer waits.
const (
	// as many memtables as there may be wait for their flush, and the current one fills up
	StallMemTables = "memtables"
	StallLevel0    = "level0" // level 0 has as many tables as it may have
	StallDebt      = "debt"   // level 0 is filling up, or the tables take much space
)

// MakeRoom sees to it that the memtables take a group, and returns where it is applied. It delays
// the writer (delay), bounds logs and memory, and rotates the memtables that are full and no
// others, as soon as another one may be sealed (wait); they share one new log. Commit leader only.
func (s *Scheduler) MakeRoom(batches [][]byte, bytes int64, entries int,
	mode write.Mode) (write.Target, error) {
	g, several := &s.group, s.opts.Several()
	g.log = 0
	if several {
		bytes = g.split(batches, s.opts.Find)
	} else {
		g.shares = append(g.shares[:0], share{s.home, bytes, entries})
	}
	if err := s.delay(bytes, mode); err != nil {
		return nil, err
	}
	if several {
		if err := s.boundLogs(); err != nil {
			return nil, err
		}
	}
	if crossed := s.opts.Account != nil && s.opts.Account.Wrote(bytes); crossed || several {
		if err := s.boundMemory(mode); err != nil {
			return nil, err
		}
	}
	for i := 0; i < len(g.shares); i++ {
		sh := &g.shares[i]
		fits, err := sh.space.HasRoom(sh.bytes, sh.entries)
		if err == nil && !fits {
			if err = s.wait(sh.space, mode); err == nil {
				err = s.rotate(sh.space, sh.bytes, sh.entries)
			}
		}
		if errors.Is(err, base.ErrNoKeyspace) { // other keyspaces' writes go on
			g.leaveOut(i)
			i--
		} else if err != nil {
			return nil, err
		}
	}
	for i := range g.shares {
		g.shares[i].space.BeginLog(s.opts.WAL.Num()) // another tree may have begun it
	}
	if several && !g.sole {
		return g, nil
	}
	return g.shares[0].space.Tree, nil
}

// rotate seals the memtable of a keyspace and starts another one, with room for so many bytes and
// entries. Commit leader only.
func (s *Scheduler) rotate(k *Keyspace, bytes int64, entries int) error {
	if err := k.Rotate(bytes, entries, s.group.rotateLog); err != nil {
		return err
	}
	s.wakeSealed(k)
	return nil
}

// rotateLogOnce starts a log at its first call for a group, and returns the number of that one
// afterwards: nothing is appended in between.
func (s *Scheduler) rotateLogOnce(last base.SeqNum) (num uint64, err error) {
	if s.group.log == 0 {
		s.group.log, err = s.opts.WAL.Rotate(last)
	}
	return s.group.log, err
}

// Seal rotates the memtable of a keyspace if it has any entry. Commit leader only.
func (s *Scheduler) Seal(k *Keyspace) error {
	state := k.Acquire()
	if state == nil {
		return nil
	}
	defer state.Unref()
	if state.Mem.Len() == 0 {
		return nil
	}
	if err := s.wait(k, 0); err != nil {
		return err
	}
	s.group.log = 0
	return s.rotate(k, 0, 0)
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
	if cause == StallDebt {
		s.updateDelays() // files may be gone that are counted until then
	}
	return nil
}

// updateDelays is updateDelay of the trees that delay writers.
func (s *Scheduler) updateDelays() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.trees.pressed {
		s.updateDelayLocked(k)
	}
}

// updateDelay is called when k has a new version. It derives the write delay from level 0 and the
// space taken of the tree under most pressure: nothing below half of the way to a limit, then
// growing smoothly, without bound as the limit of level 0 comes near, so that writers and
// compactions meet in between. At three quarters of the limit it is 10 us per KiB. A tree whose
// compactions fail delays nobody.
func (s *Scheduler) updateDelay(k *Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updateDelayLocked(k)
}

func (s *Scheduler) updateDelayLocked(k *Keyspace) {
	s.trees.markDue(k)
	pressure := 0.0
	if state := k.Acquire(); state != nil {
		if !k.dropped && k.compaction.err == nil { // else waiting would not help
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

// wait is where the commit leader waits for room. It returns when another memtable of a keyspace
// may be sealed: at most MaxMemTables are in memory, and level 0 is below its limit. With nil, it
// returns when the memtables of all keyspaces have less than MaxMemTableBytes. It fails when the
// job that would make room keeps failing, and never waits where nothing under way would end that.
func (s *Scheduler) wait(k *Keyspace, mode write.Mode) error {
	var start time.Time
	var cause string
	s.mu.Lock()
	defer func() {
		s.waitsFor = ""
		s.waits.Store(false)
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
		now, err := s.blockedLocked(k)
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
			return s.opts.Writable()
		}
		s.waitsFor = now
		s.waits.Store(true)
		s.cond.Wait()
	}
}

// blockedLocked says why wait waits, or "". It fails when the job that would make room has failed,
// and when the keyspace is gone.
func (s *Scheduler) blockedLocked(k *Keyspace) (cause string, err error) {
	if k == nil {
		active, sealed, _ := s.memTableBytesLocked()
		if sealed == 0 || !s.mustWaitForMemory(active, sealed) {
			return "", nil
		}
		return StallMemTables, noRoom("flushing", s.flush.err)
	}
	state := k.Acquire()
	if state == nil || k.dropped {
		if state != nil {
			state.Unref()
		}
		return "", k.Gone()
	}
	defer state.Unref()
	switch {
	case len(state.Sealed) >= s.limits.Load().MaxMemTables-1:
		return StallMemTables, noRoom("flushing", s.flush.err)
	case len(state.Version.Levels[0].Files) >= s.limits.Load().L0Stop && s.paused == 0:
		return StallLevel0, noRoom("compaction", errors.Join(s.compaction.err, k.compaction.err))
	}
	return "", nil
}

// noRoom is the error of a write for which a job that failed makes no room; nil: it has not failed.
func noRoom(job string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("no room for the write, as %s fails: %w", job, err)
}

// underWayLocked reports whether work runs, or waits on a timer, after which a waiting writer
// checks the cause again. A writer never waits without: where Pick finds nothing, level 0 is merged
// by force, and if even that is impossible the write goes on.
func (s *Scheduler) underWayLocked(k *Keyspace, cause string) bool {
	switch {
	case cause == StallMemTables:
		return s.flushing
	case len(k.running) > 0 || s.compaction.retry != nil || k.compaction.retry != nil ||
		s.workers >= s.limits.Load().MaxJobs || s.waitsForWorker():
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
