package work

import (
	"context"
	"time"

	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Here is what a database shares with others, and the limits that change while it is open.

// SetLimits changes the limits, from the next decision on.
func (s *Scheduler) SetLimits(l Limits) {
	s.own.Set(l.BytesPerSecond)
	s.limits.Store(&l)
}

// needOf is how much a tree needs a compaction: budget.Urgent when level 0 has three quarters of
// the tables at which writes wait.
func (s *Scheduler) needOf(k *Keyspace) float64 {
	state := k.Acquire()
	if state == nil {
		return 0
	}
	defer state.Unref()
	return budget.Urgent * float64(len(state.Version.Levels[0].Files)) /
		(float64(s.limits.Load().L0Stop) * 3 / 4)
}

// reserveLocked asks for a worker for a compaction of k.
func (s *Scheduler) reserveLocked(k *Keyspace) bool {
	return s.client == nil || s.client.Reserve(s.needOf(k))
}

// reservedLocked gives back a worker that was not used. refused is set if there is work but no
// worker for it.
func (s *Scheduler) reservedLocked(refused bool) {
	if s.client != nil {
		s.client.Done(refused)
	}
}

// waitsForWorker reports whether the Scheduler is woken when there is a worker.
func (s *Scheduler) waitsForWorker() bool { return s.client != nil && s.client.Waits() }

// beginJob begins a compaction in the pool, and cuts it into no more pieces than there are workers.
func (s *Scheduler) beginJob(plan *picker.Plan) *budget.Job {
	if s.client == nil {
		return nil
	}
	job := s.client.Begin(plan.MaxPieces)
	plan.MaxPieces = job.Pieces()
	return job
}

// beginFlushJob waits for a worker for a flush. The database whose writers wait goes first, then
// the one with the most sealed memtables.
func (s *Scheduler) beginFlushJob(k *Keyspace) (*budget.Job, error) {
	if s.client == nil {
		return nil, nil
	}
	s.mu.Lock()
	need := float64(len(k.Sealed())) / float64(s.limits.Load().MaxMemTables)
	if s.waitsFor != "" {
		need = budget.Urgent
	}
	s.mu.Unlock()
	job := s.client.Flush(need, func() bool {
		return s.stopFlush.Load() || s.opts.Failure() != nil
	})
	if job == nil {
		return nil, errStopped
	}
	return job, nil
}

// pauseFor is how long a compaction sleeps before it looks again whether it has to pause.
const pauseFor = 2 * time.Millisecond

// pauseJob notes that a compaction goes on. While there are more jobs than workers, it waits.
func (s *Scheduler) pauseJob(ctx context.Context, job *budget.Job) {
	s.opts.Account.Settle()
	for job.Progress() && !s.stop.Load() && s.opts.Failure() == nil && !s.pressed() &&
		ctx.Err() == nil {
		time.Sleep(pauseFor)
	}
}

// pressed reports that writers wait, are delayed, or soon will be: then jobs have no limit.
func (s *Scheduler) pressed() bool {
	return s.delayNanos.Load() > 0 || s.paceNanos.Load() > 0 || s.waits.Load()
}

// PaceCompaction is called after a compaction has read or written so many bytes.
func (s *Scheduler) PaceCompaction(bytes int64) {
	lifted := func() bool { return s.pressed() || s.stop.Load() }
	s.own.Pay(bytes, false, lifted)
	s.opts.Rate.Pay(bytes, false, lifted)
}

// paceFlush is called after a flush has written so many bytes.
func (s *Scheduler) paceFlush(bytes int64) {
	lifted := func() bool { return s.pressed() || s.stopFlush.Load() }
	s.own.Pay(bytes, true, lifted)
	s.opts.Rate.Pay(bytes, true, lifted)
}

// recheckShared makes a flush that waits for a worker look whether the database is closing.
func (s *Scheduler) recheckShared() {
	if s.client != nil {
		s.client.Recheck()
	}
}

// leaveShared ends the sharing. Nothing runs any more.
func (s *Scheduler) leaveShared() {
	if s.client != nil {
		s.client.Close()
	}
	s.opts.Account.Close()
}

// tooMuchMemory reports whether the largest memtable is to be sealed, for this database or for
// all that share a budget.
func (s *Scheduler) tooMuchMemory(active, sealed int64) bool {
	if active > s.limits.Load().MaxMemTableBytes/2 && s.opts.Keyspaces {
		return true
	}
	seal, _ := s.opts.Account.Weigh(active, sealed)
	return seal
}

// mustWaitForMemory reports whether writers wait for flushes, for this database or for all that
// share a budget.
func (s *Scheduler) mustWaitForMemory(active, sealed int64) bool {
	if active+sealed > s.limits.Load().MaxMemTableBytes && s.opts.Keyspaces {
		return true
	}
	_, wait := s.opts.Account.Weigh(active, sealed)
	return wait
}

// SealLargest seals the largest memtable, for other databases that share the budget. Commit
// leader only.
func (s *Scheduler) SealLargest() error {
	_, _, largest := s.memTableBytes()
	if largest == nil {
		return nil
	}
	return s.Seal(largest)
}
