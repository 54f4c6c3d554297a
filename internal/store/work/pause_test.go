package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TestPauseBesideAnother: the end of a Pause lets manual compactions go on. A compaction that
// begins before another Pause returns is stopped for that Pause.
func TestPauseBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDatabase(t, vfs.NewMem()).jobs
		for round := range 60 { // in each order in which the three wait and wake up
			s.mu.Lock()
			s.trees.running++ // as if a compaction ran
			s.stop.Store(true)
			s.mu.Unlock()
			ended := make(chan struct{}, 3)
			for i := range 3 {
				go func() {
					defer func() { ended <- struct{}{} }()
					if i != round%3 {
						s.Pause()
						return
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					for s.stop.Load() { // a manual compaction before its next step
						s.cond.Wait()
					}
					s.trees.running++
				}()
				synctest.Wait()
			}
			s.mu.Lock()
			s.trees.running--
			s.cond.Broadcast()
			s.mu.Unlock()
			synctest.Wait()
			s.mu.Lock()
			if len(ended) < cap(ended) && !s.stop.Load() {
				t.Error("Pause waits for a compaction that nobody stops")
			}
			s.trees.running = 0
			s.cond.Broadcast()
			s.mu.Unlock()
			for range cap(ended) {
				<-ended
			}
			s.mu.Lock()
			s.trees.running = 0 // the manual one may have begun last
			s.mu.Unlock()
		}
	})
}

// TestPauseForOthersEndsWithTheContext: a compaction that pauses, as another database's began
// before and there is one worker, goes on at the end of its context, to end.
func TestPauseForOthersEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDatabase(t, vfs.NewMem()).jobs
		pool := budget.NewPool(1)
		older := pool.Open(func() {}).Begin(1)
		defer older.End()
		job := pool.Open(func() {}).Begin(1)
		defer job.End()
		if !job.Progress() {
			t.Fatal("the later job has no reason to pause")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		s.pauseJob(ctx, job)
		if took := time.Since(begin); took > 0 {
			t.Errorf("it paused for %v", took)
		}
	})
}
