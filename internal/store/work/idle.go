package work

import (
	"runtime"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/picker"
)

// quiet is what a tree is measured by when nobody writes, or few do: how much of it is live, how
// fast memtables fill, and since when there were no writes. Its fields are guarded by Scheduler.mu.
type quiet struct {
	live  uint64       // picker.Live of a recent version
	of    uint64       // the bytes of that version, and those of the values that it refers to
	ends  [2]time.Time // of the last two flushes, the last one first
	seq   base.SeqNum  // the last sequence number seen
	since time.Time    // when it was first seen
	idle  bool         // the tree is being merged into one run: nobody has written since
	plan  *picker.Plan
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

// liveStep: the live bytes are estimated anew when the tree has changed by one part in so many.
const liveStep = 64

// estimateLive keeps Keyspace.quiet.live up to date. Scheduler.install is held.
func (s *Scheduler) estimateLive(k *Keyspace) {
	state := k.Acquire()
	if state == nil {
		return
	}
	defer state.Unref()
	values := state.Version.ValueBytes()
	size := state.Version.Size() + values
	s.mu.Lock()
	was := k.quiet.of
	s.mu.Unlock()
	if max(size, was)-min(size, was) <= was/liveStep {
		return
	}
	live, liveValues := picker.Live(state.Version)
	s.mu.Lock()
	k.quiet.live, k.quiet.of = live, size
	if values > 0 {
		old := uint64(0)
		for _, f := range state.Version.Tables() {
			old += s.oldValuesLocked(k, f)
		}
		liveValues -= min(liveValues, old)
	}
	s.values.noteLiveLocked(k, treeValues{liveValues, values})
	s.mu.Unlock()
}

// idleLocked reports whether nobody has written for long enough to merge a tree into
// one run. Once it is, it stays so until somebody writes.
func (s *Scheduler) idleLocked(k *Keyspace, v *manifest.Version, c picker.Config) bool {
	q, now := &k.quiet, time.Now()
	if seq := s.opts.Seqs.Visible(); seq != q.seq || q.since.IsZero() {
		q.seq, q.since, q.idle = seq, now, false
	}
	if !q.idle {
		after, ok := picker.IdleAfter(v, c)
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

// restLocked is called when nothing was found to do for a tree. It reports whether that
// is so until something changes, or until the time for a look at it that it sets if the
// tree has work for a quiet time.
func (s *Scheduler) restLocked(k *Keyspace, v *manifest.Version) bool {
	c := s.configLocked(k)
	if after, ok := picker.IdleAfter(v, c); ok {
		s.idleLocked(k, v, c)
		look := min(max(after/4, minWatch), maxWatch)
		if left := after - time.Since(k.quiet.since); left > 0 {
			look = min(look, max(left, time.Millisecond))
		}
		s.trees.watch(k, time.Now().Add(look))
	}
	s.watchExpiryLocked(k, v, c.Expired)
	s.watchValuesLocked(k, c)
	// Reads pay for merges only while no flush runs.
	return !k.heldBySnapshot && !(s.flushing && k.RunsSought() > 0)
}

// maxExpiryWatch bounds the time until the next look at a tree with tables that expire: the
// clock may be set, and sleeps with the machine.
const maxExpiryWatch = time.Minute

// watchExpiryLocked has the tree looked at again when everything in one of its tables has
// expired, so that it is dropped though nobody writes.
func (s *Scheduler) watchExpiryLocked(k *Keyspace, v *manifest.Version, expired uint64) {
	if expired == 0 {
		return
	}
	next := picker.NextExpiry(v, expired)
	if next == 0 {
		return
	}
	left := s.opts.Seqs.Clock.Left(next)
	if left == 0 {
		k.heldBySnapshot = true
		left = maxExpiryWatch
	}
	at := time.Now().Add(min(left, maxExpiryWatch))
	if !k.isWatched || at.Before(k.look) {
		s.trees.watch(k, at)
	}
}

// watchLocked sets the timer for the next look, if some tree has work for a quiet time
// and nothing runs. A database whose trees are one run each has no timer.
func (s *Scheduler) watchLocked() {
	if len(s.trees.watched) == 0 || s.paused > 0 || s.stop.Load() || s.compaction.retry != nil ||
		s.flushing || s.trees.running > 0 {
		return
	}
	if !s.calmAt.IsZero() && !s.trees.soonest.Before(s.calmAt) {
		return
	}
	if s.calm != nil {
		s.calm.Stop()
	}
	s.calmAt = s.trees.soonest
	s.calm = time.AfterFunc(max(time.Until(s.calmAt), time.Millisecond), s.lookAtWatched)
}

// lookAtWatched looks at the trees whose time has come.
func (s *Scheduler) lookAtWatched() {
	s.mu.Lock()
	s.calmAt = time.Time{}
	s.trees.lookAgain(time.Now())
	s.chooseRoundLocked()
	s.mu.Unlock()
	s.Wake()
}

// An idle merge gives way to a writer: it looks for one every 200 us or so, then pauses for as long
// as writes come, and after maxGiveWay, or when a memtable is full, is given up.
const (
	giveWayStep = 5 * time.Millisecond
	maxGiveWay  = 100 * time.Millisecond
)

// giveWay returns the function by which a merge that only reads gain from is given up for
// a manual compaction that waits for its end, as that does the same work and more, and by
// which the merge of an idle tree gives way to writers. Other plans go on: it is stop.
func (s *Scheduler) giveWay(k *Keyspace, plan *picker.Plan, stop func() error) func() error {
	s.mu.Lock()
	optional, idle := k.optional == plan, k.quiet.plan == plan
	s.mu.Unlock()
	if !optional {
		return stop
	}
	unless := stop
	stop = func() error {
		s.mu.Lock()
		wanted := k.manualWaits > 0
		s.mu.Unlock()
		if wanted {
			return errStopped
		}
		return unless()
	}
	if !idle { // the tree is written
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
			if paused >= maxGiveWay || len(k.Sealed()) > 0 {
				return errStopped
			}
			time.Sleep(giveWayStep)
			paused += giveWayStep
			runtime.Gosched()
		}
	}
}
