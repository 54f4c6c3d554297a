// Package write is the group commit: it orders writes, gives them sequence
// numbers, has them logged, applied and published, and lets writers that come
// at the same time share one log append and one sync. It knows the database as
// a few functions only, of which one, Room, leads up into it.
//
// Every write runs on its caller's goroutine, in one of three roles:
//
//  1. Alone. If no other commit is under way, a writer takes the lead by one
//     compare-and-swap and takes its batch through all steps. No queue, no lock.
//
//  2. Leader of a group. A writer that finds the lead taken queues and sleeps. A
//     leader that is done hands the lead to the first writer of the queue (release),
//     which takes the writers behind it as its group (buildGroup): one log append,
//     one sync.
//
//  3. Follower. The leader of its group wakes it when the group is visible. The lead is
//     handed over before that, so that the next group does not wait for the wake-ups.
//
// The leader applies its whole group to the memtable. An entry costs about 150 ns, so
// that parallel application, with a queue for publication, would not pay. After a sync
// its writers usually come back at once: a leader that is about to sync lets them queue
// first (gather).
//
// The steps of a group, in this order (write):
//
//  1. Room: the memtables take the group. This is where writes are delayed and stall.
//  2. Sequence numbers, Append, and Sync if a writer of the group asks for it. A group
//     whose append or sync fails is never visible.
//  3. Apply and Publish. Readers look at the published sequence number only, so a
//     group becomes visible as a whole.
//
// A group with conditions (CommitIf) takes other steps, see writeIf.
//
// A failure that leaves the log or the memtable in doubt poisons the Pipeline: every
// later commit fails with the cause.
//
// A Pipeline is safe for concurrent use.
package write

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// Env is what a Pipeline needs of a database. The functions are called by the
// leader, never two at a time, in the order Room, Append, Sync (if a writer of the
// group asks for it), Target.Apply for each batch, Publish. None may call back into the
// Pipeline except for Poison, Err, BeginStall and EndStall. Only Room and what is rare, LeaderAsks
// and Failed, lead up into the database; the others are the log's and the read states' own.
type Env struct {
	// Room sees to it that a group, which has so many bytes and entries, can be
	// applied, and returns where. With NoStall it fails with base.ErrBusy rather than wait. Its
	// errors fail the group and nothing else.
	Room func(group [][]byte, bytes int64, entries int, mode Mode) (Target, error)
	// Append writes the group to the log, in one go. The batches have ascending
	// sequence numbers without gaps. After a shortage (base.IsShortage) nothing
	// of the group is in the log, and only the group fails, unless Append has
	// poisoned the Pipeline; any other failure poisons it.
	Append func(group [][]byte) error
	// Sync makes everything appended durable.
	Sync func() error
	// Publish makes everything up to seq visible.
	Publish func(seq base.SeqNum)
	// LeaderAsks, if not nil, reports whether leaders may call a comparer of the program: then a
	// write that is about to wait makes sure that it is not within one.
	LeaderAsks func() bool
	// Guard takes a step of a leader that asks; its own errors are those of panics and of comparers
	// that end their goroutine. nil: Protect.
	Guard func(step func() error) error
	// Failed, if not nil, takes a failure, a panic for instance, that ends all commits.
	Failed func(err error)
}

// Target is where the batches of a group are applied.
type Target interface {
	// Apply inserts a batch of the group, whose first entry has sequence number seq. The batches
	// come in their order; some may be left out.
	Apply(batch []byte, seq base.SeqNum) error
}

// Mode is what a write asks for, a set of flags. A group has the flags of all
// its writes.
type Mode uint8

const (
	// Sync: the write is durable when it returns.
	Sync Mode = 1 << iota
	// NoStall: the write fails with base.ErrBusy rather than wait for room.
	NoStall
)

// Sizes of groups in bytes. A small write is not made to wait for large ones
// behind it.
const (
	maxGroup   = 1 << 20
	smallBatch = 128 << 10
)

// maxKeptBuffer is the largest encoding buffer that is kept for reuse, in bytes.
const maxKeptBuffer = 1 << 20

// Pipeline orders the writes of one database.
type Pipeline struct {
	env Env

	// lead is 1 while a writer leads. Handing the lead over leaves it at 1.
	lead atomic.Uint32
	// waiting is the length of the queue.
	waiting atomic.Int32
	// commits counts the batches that were written. It lies beside lead: a writer has the line.
	commits atomic.Uint64
	cause   atomic.Pointer[error] // why no more commits are accepted

	// Guarded by lead.
	last    base.SeqNum
	buf     []byte   // encodes the lone leader's Put
	noRoom  bool     // the last call of Room failed
	batches [][]byte // of the group being written
	target  Target   // of the group, from Room
	lastLen int      // writers in the group before
	inStep  bool     // a step is under way: true to release if a callback has ended the goroutine

	writers sync.Pool // *writer
	times   hist.Durations

	mu         sync.Mutex // leaf; guards the queue
	head, tail *writer
	stalled    bool // the leader waits in Room
}

// New makes a pipeline whose next write has sequence number last+1.
func New(env Env, last base.SeqNum) *Pipeline {
	if env.LeaderAsks == nil {
		env.LeaderAsks = func() bool { return false }
	}
	if env.Guard == nil {
		env.Guard = base.Protect
	}
	return &Pipeline{env: env, last: last}
}

// Expect takes the memory that the first commit needs. Before it only.
func (p *Pipeline) Expect() { p.times.Begin() }

// Commit writes a validated batch, setting its sequence number, and returns
// when it is in the log (with Sync: durable) and visible. An empty batch with
// Sync makes all earlier writes durable.
func (p *Pipeline) Commit(batch []byte, mode Mode) error {
	if p.measures() {
		defer p.times.Since(hist.Now())
	}
	lead := p.lead.CompareAndSwap(0, 1)
	if lead && p.expectsNobody(mode) {
		defer p.release()
		return p.alone(batch, mode)
	}
	w := p.newWriter()
	w.batch, w.mode = batch, mode
	return p.submit(w, lead)
}

// Put commits a single entry of any kind, in a keyspace.
func (p *Pipeline) Put(in base.KeyspaceID, kind base.Kind, key, value []byte, mode Mode) error {
	if p.measures() {
		defer p.times.Since(hist.Now())
	}
	lead := p.lead.CompareAndSwap(0, 1)
	if lead && p.expectsNobody(mode) {
		defer p.release()
		return p.entryAlone(in, kind, key, value, mode)
	}
	w := p.newWriter()
	w.own = encode(w.own, in, kind, key, value)
	w.batch, w.mode = w.own, mode
	return p.submit(w, lead)
}

// commitsPerSample is how many commits there are for one whose duration is taken.
const commitsPerSample = 32

// measures reports whether the duration of a commit that begins now is to be taken.
func (p *Pipeline) measures() bool { return p.commits.Load()%commitsPerSample == 0 }

// Commits is the number of batches written, and the durations of a sample of the commits, waits and
// syncs included.
func (p *Pipeline) Commits() (n uint64, times *hist.Histogram) {
	return p.commits.Load(), p.times.Histogram()
}

// encode makes buf a batch of one entry.
func encode(buf []byte, in base.KeyspaceID, kind base.Kind, key, value []byte) []byte {
	return batchrepr.AppendEntry(batchrepr.Init(buf), in, kind, key, value)
}

// Exclusive runs f while no commit is under way. f must not commit. It runs on
// a poisoned pipeline too.
func (p *Pipeline) Exclusive(f func() error) error {
	if p.lead.CompareAndSwap(0, 1) {
		return p.runExclusive(f)
	}
	w := p.newWriter()
	w.exclusive = f
	return p.submit(w, false)
}

// Assign is Exclusive for what takes sequence numbers of its own, at most n of them, beside
// batches: f gets the first one, and returns how many it used, or may have used. These are
// published afterwards.
func (p *Pipeline) Assign(n int, f func(first base.SeqNum) (used int, err error)) error {
	return p.Exclusive(func() error {
		if cause := p.cause.Load(); cause != nil {
			return *cause
		}
		if base.SeqNum(n) >= base.MaxSeqNum-p.last {
			return fmt.Errorf("%w: sequence numbers are used up", base.ErrTooLarge)
		}
		used, err := f(p.last + 1)
		if used > 0 {
			p.last += base.SeqNum(used)
			p.env.Publish(p.last)
		}
		return err
	})
}

// Poison makes every later commit fail with err. The first call counts.
func (p *Pipeline) Poison(err error) { p.cause.CompareAndSwap(nil, &err) }

// Err is what the pipeline was poisoned with, or nil.
func (p *Pipeline) Err() error {
	if e := p.cause.Load(); e != nil {
		return *e
	}
	return nil
}

// fail poisons the pipeline after a failure of its own and returns the error
// that later commits get, too.
func (p *Pipeline) fail(err error) error {
	if !errors.Is(err, base.ErrReadOnly) {
		err = fmt.Errorf("%w: %w", base.ErrReadOnly, err)
	}
	p.Poison(err)
	if p.env.Failed != nil {
		p.env.Failed(err)
	}
	return err
}

// catchPanic turns a panic of the deferring function into a failure.
func (p *Pipeline) catchPanic(err *error) {
	if r := recover(); r != nil {
		p.inStep = false
		*err = p.fail(fmt.Errorf("committing: %w", base.NewPanic(r)))
	}
}

// runExclusive runs f, and releases the lead.
func (p *Pipeline) runExclusive(f func() error) (err error) {
	defer p.release()
	defer p.catchPanic(&err)
	p.inStep = true
	if p.env.LeaderAsks() {
		err = p.guarded(f)
	} else {
		err = f()
	}
	p.inStep = false
	return err
}

// guarded takes a step that may call a comparer of the program. The end of its goroutine must not
// take the lead with it: like a panic it poisons the pipeline.
func (p *Pipeline) guarded(step func() error) error {
	var err error
	if failure := p.env.Guard(func() error { err = step(); return nil }); failure != nil {
		return p.fail(fmt.Errorf("committing: %w", failure))
	}
	return err
}

// entryAlone writes one entry without a group. The caller leads.
func (p *Pipeline) entryAlone(in base.KeyspaceID, kind base.Kind, key, value []byte,
	mode Mode) (err error) {
	defer p.catchPanic(&err)
	p.buf = encode(p.buf, in, kind, key, value)
	err = p.alone(p.buf, mode)
	if cap(p.buf) > maxKeptBuffer {
		p.buf = nil
	}
	return err
}

// alone writes one batch without a group. The caller leads.
func (p *Pipeline) alone(batch []byte, mode Mode) error {
	p.batches = p.batches[:0]
	if batchrepr.Count(batch) > 0 {
		p.batches = append(p.batches, batch)
	}
	p.inStep = true
	err := p.write(mode)
	p.inStep = false
	clear(p.batches)
	p.lastLen = 1
	return err
}

// write takes p.batches, none of them empty, through all steps. The caller
// leads.
func (p *Pipeline) write(mode Mode) (err error) {
	defer p.catchPanic(&err)
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	if len(p.batches) > 0 {
		if err := p.makeRoom(mode); err != nil {
			return err
		}
		if err := p.assignAndLog(); err != nil {
			return err
		}
	}
	if mode&Sync != 0 {
		if err := p.env.Sync(); err != nil {
			return p.fail(err)
		}
	}
	if len(p.batches) == 0 {
		return nil
	}
	if err := p.apply(); err != nil {
		return err
	}
	p.env.Publish(p.last)
	return nil
}

// apply inserts p.batches, which are logged.
func (p *Pipeline) apply() error {
	for _, b := range p.batches {
		if err := p.target.Apply(b, p.last+1); err != nil {
			return p.fail(err)
		}
		p.last += base.SeqNum(batchrepr.Count(b))
	}
	p.commits.Add(uint64(len(p.batches)))
	return nil
}

func (p *Pipeline) makeRoom(mode Mode) (err error) {
	var bytes int64
	var entries uint64
	for _, b := range p.batches {
		bytes += int64(len(b))
		entries += uint64(batchrepr.Count(b))
	}
	if entries >= uint64(base.MaxSeqNum-p.last) {
		return fmt.Errorf("%w: sequence numbers are used up", base.ErrTooLarge)
	}
	p.target, err = p.env.Room(p.batches, bytes, int(entries), mode)
	p.noRoom = err != nil
	return err
}

// assignAndLog gives p.batches their sequence numbers and appends them to the log.
func (p *Pipeline) assignAndLog() error {
	seq := p.last + 1
	for _, b := range p.batches {
		batchrepr.SetSeq(b, seq)
		seq += base.SeqNum(batchrepr.Count(b))
	}
	if err := p.env.Append(p.batches); err != nil {
		if base.IsShortage(err) && p.cause.Load() == nil {
			return err
		}
		return p.fail(err)
	}
	return nil
}

// release gives up the lead: to the first in the queue, if there is one. It is deferred where the
// leader makes a step: a callback, of the file system for instance, may end the goroutine. Then
// nobody knows how far the step has come, and commits end.
func (p *Pipeline) release() {
	if p.inStep {
		p.inStep = false
		_ = p.fail(fmt.Errorf("committing: %w", base.ErrGoexit))
	}
	for {
		if p.waiting.Load() > 0 {
			if w := p.pop(); w != nil {
				w.signal(leading)
				return
			}
		}
		p.lead.Store(0)
		// A writer may have queued after waiting was loaded and found the lead
		// still taken: look again, or it sleeps for ever.
		if p.waiting.Load() == 0 || !p.lead.CompareAndSwap(0, 1) {
			return
		}
	}
}

// submit returns when w is committed. With lead, the caller leads already; otherwise w
// queues. w goes back to the pool.
func (p *Pipeline) submit(w *writer, lead bool) error {
	switch {
	case lead:
		p.gather(p.lastLen - 1)
		p.leadGroup(w)
	case p.mustNotWait(w):
	case !p.push(w):
		w.err = base.ErrBusy
	default:
		if p.lead.CompareAndSwap(0, 1) {
			p.release() // the lead became free meanwhile: the first writer gets it, perhaps w
		}
		if w.wait() != leading {
			break
		}
		if w.exclusive != nil {
			w.err = p.runExclusive(w.exclusive)
			break
		}
		if w.mode&Sync != 0 {
			p.gather(int(p.waiting.Load()) + p.lastLen)
		}
		p.leadGroup(w)
	}
	err := w.err
	p.free(w)
	return err
}

// mustNotWait says, as the error of w, that the write is a callback's: the leader may wait for the
// flush or compaction that calls it, or may be its caller.
func (p *Pipeline) mustNotWait(w *writer) bool {
	if p.env.LeaderAsks() {
		w.err = base.NotWithin()
	} else {
		w.err = base.NotWithinBackground()
	}
	return w.err != nil
}

// leadGroup commits w and the writers that join it.
func (p *Pipeline) leadGroup(w *writer) {
	p.buildGroup(w)
	defer p.endGroup(w)
	p.writeGroup(w)
}

// endGroup releases the lead and wakes the followers.
func (p *Pipeline) endGroup(w *writer) {
	followers, ended := w.next, p.inStep
	p.release()
	for followers != nil {
		f := followers
		followers = f.next // f is its owner's again after signal
		if ended && f.err == nil {
			f.err = p.Err()
		}
		f.signal(done)
	}
}

// expectsNobody reports whether a leader that found no queue commits alone: always,
// unless it is about to sync and the last group had several writers, which may come
// back at once.
func (p *Pipeline) expectsNobody(mode Mode) bool { return mode&Sync == 0 || p.lastLen <= 1 }

// gatherYields is how often a leader yields to let others queue. A yield costs
// well below 1 us where nothing else runs; two are as good as fifty.
const gatherYields = 2

// gather lets up to n writers queue before a sync starts: the writers of the last sync
// usually come back at once, and one sync for all costs less than one for the first of
// them and another for the others (measured: 16 writers for each sync instead of 8.5).
func (p *Pipeline) gather(n int) {
	for range gatherYields {
		if int(p.waiting.Load()) >= n {
			return
		}
		runtime.Gosched()
	}
}

// writeGroup writes the batches of the list that begins with w. Where there is
// no room without a stall, NoStall writers fail at once and the others go on:
// behind w, or back in the queue if w is a NoStall writer itself. Where there is none at all, each
// batch goes alone: one keyspace may have no room, and the others have.
func (p *Pipeline) writeGroup(w *writer) {
	err := p.writeList(w)
	if errors.Is(err, base.ErrBusy) {
		p.refuse(w)
		if w.mode&NoStall != 0 {
			p.requeue(w.next)
			w.next = nil
		} else {
			err = p.writeList(w)
		}
	}
	alone := err != nil && p.noRoom && w.next != nil
	for ; w != nil; w = w.next {
		if alone {
			err = p.writeOne(w)
		}
		if w.err == nil {
			w.err = err
		}
	}
}

// writeOne is writeList of w without the writers behind it.
func (p *Pipeline) writeOne(w *writer) error {
	next := w.next
	w.next = nil
	err := p.writeList(w)
	w.next = next
	return err
}

// refuse takes the NoStall writers behind w off the list and fails them.
func (p *Pipeline) refuse(w *writer) {
	for w.next != nil {
		f := w.next
		if f.mode&NoStall == 0 {
			w = f
			continue
		}
		w.next = f.next
		f.next, f.err = nil, base.ErrBusy
		f.signal(done)
	}
}

// writeList writes the batches of the list. It fails with ErrBusy if there is a
// NoStall writer in it and no room.
func (p *Pipeline) writeList(w *writer) error {
	p.batches = p.batches[:0]
	mode, members, conditional := Mode(0), 0, false
	for f := w; f != nil; f = f.next {
		members++
		mode |= f.mode
		conditional = conditional || f.condition != nil
		if batchrepr.Count(f.batch) > 0 {
			p.batches = append(p.batches, f.batch)
		}
	}
	var err error
	p.inStep = true
	if conditional {
		err = p.writeIf(w, mode)
	} else {
		err = p.write(mode)
	}
	p.inStep = false
	clear(p.batches)
	p.lastLen = members
	return err
}
