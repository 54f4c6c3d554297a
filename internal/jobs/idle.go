package jobs

import (
	"runtime"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
)

// quiet is what a tree is measured by when nobody writes, or few do: how much of it is
// live, how fast memtables fill, and since when there were no writes. Its fields are
// guarded by Scheduler.mu.
type quiet struct {
	live  uint64       // compact.Live of a recent version
	of    uint64       // the bytes of that version
	ends  [2]time.Time // of the last two flushes, the last one first
	seq   base.SeqNum  // the last sequence number seen
	since time.Time    // when it was first seen
	idle  bool         // the tree is being merged into one run: nobody has written since
	plan  *compact.Plan
}

// fastFor is how long the writers count as fast after a memtable that they filled in
// less than that.
const fastFor = time.Second

// flushed notes the end of a flush.
func (q *quiet) flushed(now time.Time) { q.ends[1], q.ends[0] = q.ends[0], now }

// fast reports that the writers fill a memtable in less than fastFor.
func (q *quiet) fast(now time.Time) bool {
	return now.Sub(q.ends[0]) < fastFor && q.ends[0].Sub(q.ends[1]) < fastFor
}

// liveStep: the live bytes are estimated anew when the tree has changed by one part
// in so many.
const liveStep = 64

// estimateLive keeps keyspace.quiet.live up to date. Scheduler.install is held.
func (s *Scheduler) estimateLive(k *keyspace) {
	state := k.Acquire()
	if state == nil {
		return
	}
	defer state.Unref()
	size := state.Version.Size()
	s.mu.Lock()
	was := k.quiet.of
	s.mu.Unlock()
	if max(size, was)-min(size, was) <= was/liveStep {
		return
	}
	live := compact.Live(state.Version)
	s.mu.Lock()
	k.quiet.live, k.quiet.of = live, size
	s.mu.Unlock()
}

// idleLocked reports whether nobody has written for long enough to merge a tree into
// one run. Once it is, it stays so until somebody writes.
func (s *Scheduler) idleLocked(k *keyspace, v *manifest.Version, c compact.Config) bool {
	q, now := &k.quiet, time.Now()
	if seq := s.opts.Seqs.Visible(); seq != q.seq || q.since.IsZero() {
		q.seq, q.since, q.idle = seq, now, false
	}
	if !q.idle {
		after, ok := compact.IdleAfter(v, c)
		q.idle = ok && now.Sub(q.since) >= after
	}
	return q.idle
}

// Bounds of the pauses between two looks at a tree that is to be merged when nobody
// writes for a while.
const (
	minWatch = 250 * time.Millisecond
	maxWatch = 10 * time.Second
)

// watchLocked sets the timer for the next look, if some tree has work for a quiet time
// and none runs. A database whose trees are one run each has no timer.
func (s *Scheduler) watchLocked() {
	if s.calm != nil || s.paused > 0 || s.stop.Load() || s.compaction.retry != nil || s.flushing || s.runningLocked() > 0 {
		return
	}
	var next time.Duration
	for _, k := range s.spaces {
		state := k.Acquire()
		if state == nil {
			continue
		}
		c := s.configLocked(k)
		if after, ok := compact.IdleAfter(state.Version, c); ok {
			s.idleLocked(k, state.Version, c)
			look := min(max(after/4, minWatch), maxWatch)
			if left := after - time.Since(k.quiet.since); left > 0 {
				look = min(look, max(left, time.Millisecond))
			}
			if next == 0 || look < next {
				next = look
			}
		}
		state.Unref()
	}
	if next == 0 {
		return
	}
	s.calm = time.AfterFunc(next, func() {
		s.mu.Lock()
		s.calm = nil
		s.mu.Unlock()
		s.Wake()
	})
}

// An idle merge gives way to a writer: it looks for one every 200 us or so, then pauses
// for as long as writes come, and after maxGiveWay, or when a memtable is full, is
// given up.
const (
	giveWayStep = 5 * time.Millisecond
	maxGiveWay  = 100 * time.Millisecond
)

// giveWay returns the function by which the merge of an idle tree gives way, nil for
// other plans.
func (s *Scheduler) giveWay(k *keyspace, plan *compact.Plan, stop func() error) func() error {
	s.mu.Lock()
	idle := k.quiet.plan == plan
	s.mu.Unlock()
	if !idle {
		return stop
	}
	seq, paused := s.opts.Seqs.Visible(), time.Duration(0)
	return func() error {
		for {
			if err := stop(); err != nil {
				return err
			}
			now := s.opts.Seqs.Visible()
			if now == seq {
				return nil
			}
			seq = now
			if paused >= maxGiveWay || s.waitsForFlush(k) {
				return errStopped
			}
			time.Sleep(giveWayStep)
			paused += giveWayStep
			runtime.Gosched()
		}
	}
}

// waitsForFlush reports whether a tree has a sealed memtable.
func (s *Scheduler) waitsForFlush(k *keyspace) bool {
	state := k.Acquire()
	if state == nil {
		return true
	}
	defer state.Unref()
	return len(state.Sealed) > 0
}
