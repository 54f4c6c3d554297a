package work

import (
	"time"

	"github.com/loamdb/loam/internal/memory/arena"
)

// What the next memtable would use again is given back when a writer that needs it soon is
// unlikely: memory when arena.Idle says so, logs and memory some time after the last flush. Fresh
// memory costs a page fault for each page; a fresh log is created, allocated and synced.
const (
	trimAfter = 10 * time.Second
	trimQuiet = 3 * time.Second // after the flush of a memtable that nobody wrote to
)

// trims is what is to be given back. Guarded by Scheduler.mu.
type trims struct {
	timer   *time.Timer // nil before the first flush
	due     time.Time   // for logs, and for memory while there are writes
	idle    arena.Idle
	running bool
}

// trimLaterLocked has memory and logs given back some time after the last flush.
func (s *Scheduler) trimLaterLocked() {
	after := trimAfter
	if s.deletes.sealed {
		after, s.deletes.sealed = trimQuiet, false
	}
	if s.closing {
		return
	}
	s.trims.due = time.Now().Add(after)
	s.idleWritersLocked()
	s.nextTrimLocked(arena.IdleLook)
}

func (s *Scheduler) idleWritersLocked() bool {
	return s.trims.idle.Look(time.Now(), uint64(s.opts.Seqs.Visible()), s.opts.Cache.Lookups())
}

func (s *Scheduler) nextTrimLocked(after time.Duration) {
	if t := s.trims.timer; t != nil {
		t.Stop()
	}
	s.trims.timer = time.AfterFunc(after, s.trimNow)
}

// trimNow gives back the memory that is kept to be the next one's, what memtables have not used of
// such memory, and, when they are due, logs. While a flush runs nothing is given back: the timer is
// set at its end.
func (s *Scheduler) trimNow() {
	s.mu.Lock()
	t := &s.trims
	left := time.Until(t.due)
	switch {
	case s.closing || s.flushing || s.opts.Failure() != nil:
		s.mu.Unlock()
		return
	case t.running || left > 0 && !s.idleWritersLocked():
		s.nextTrimLocked(arena.IdleLook)
		s.mu.Unlock()
		return
	case left > 0:
		s.nextTrimLocked(left) // for the logs
	}
	t.running = true
	s.mu.Unlock()
	var err error
	defer func() {
		s.mu.Lock()
		t.running = false
		s.cond.Broadcast()
		s.mu.Unlock()
	}()
	defer s.catchPanic(&err)
	s.opts.Spare.Trim()
	_ = s.opts.Exclusive(s.shrinkMemTables)
	if left <= 0 {
		s.opts.WAL.Trim()
	}
}

// shrinkMemTables gives back what memtables have not used of the memory of others. Commit leader
// only.
func (s *Scheduler) shrinkMemTables() error {
	for k := range s.opts.All {
		if state := k.Acquire(); state != nil {
			state.Mem.Shrink()
			state.Unref()
		}
	}
	return nil
}
