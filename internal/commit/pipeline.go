// Package commit is the group commit: it orders writes, gives them sequence
// numbers, has them logged, applied and published, and lets writers that come
// at the same time share one log append and one sync. It knows the database as
// a few functions only.
//
// Every write runs on a caller's own goroutine. A writer that finds nobody at
// work leads alone: one atomic lock, no queue. Otherwise it queues; the leader
// that finishes hands the lead to the first in the queue, before it wakes those
// whose writes it has done, and the new leader takes with it everybody who
// waits by then.
//
// A Pipeline is safe for concurrent use.
package commit

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
)

// Env is what a Pipeline needs of a database. The functions are called by the
// leader, never two at a time, in the order Room, Append, Sync (if anybody of
// the group asked), Apply for each batch, Publish. None may call back into the
// Pipeline except for Poison, Err, BeginStall and EndStall.
type Env struct {
	// Append writes the group to the log, in one go. The batches have ascending
	// sequence numbers without gaps. After a shortage (base.IsShortage) nothing
	// of the group is in the log, and only the group fails, unless Append has
	// poisoned the Pipeline; any other failure poisons it.
	Append func(group [][]byte) error
	// Sync makes everything appended durable.
	Sync func() error
	// Apply inserts a batch, whose first entry has sequence seq.
	Apply func(batch []byte, seq base.SeqNum) error
	// Publish makes everything up to seq visible.
	Publish func(seq base.SeqNum)
	// Room sees to it that a group, which has so many bytes and entries, can be
	// applied. With NoStall it fails with base.ErrBusy rather than wait. Its errors
	// fail the group and nothing else.
	Room func(group [][]byte, bytes int64, entries int, mode Mode) error
	// Failed is told of a failure, a panic for instance, that ends all commits.
	// nil: nobody is.
	Failed func(err error)
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

	// lead is 1 while somebody leads. Handing over leaves it at 1.
	lead atomic.Uint32
	// waiting is the length of the queue.
	waiting atomic.Int32
	cause   atomic.Pointer[error] // why no more commits are accepted

	// Guarded by lead.
	last    base.SeqNum
	buf     []byte   // encodes the lone leader's Put
	batches [][]byte // of the group being written
	lastLen int      // writers in the group before

	mu         sync.Mutex // leaf; guards the queue
	head, tail *writer
	stalled    bool // the leader waits in Room
}

// New makes a pipeline whose next write has sequence number last+1.
func New(env Env, last base.SeqNum) *Pipeline {
	return &Pipeline{env: env, last: last}
}

// Commit writes a validated batch, setting its sequence number, and returns
// when it is in the log (with Sync: durable) and visible. An empty batch with
// Sync makes all earlier writes durable.
func (p *Pipeline) Commit(batch []byte, mode Mode) error {
	lead := p.lead.CompareAndSwap(0, 1)
	if lead && p.expectsNobody(mode) {
		err := p.alone(batch, mode)
		p.release()
		return err
	}
	w := writers.Get().(*writer)
	w.batch, w.mode = batch, mode
	return p.submit(w, lead)
}

// Put commits a single entry.
func (p *Pipeline) Put(key, value []byte, mode Mode) error {
	return p.entry(base.KindSet, key, value, mode)
}

// Delete commits a single deletion.
func (p *Pipeline) Delete(key []byte, mode Mode) error {
	return p.entry(base.KindDelete, key, nil, mode)
}

func (p *Pipeline) entry(kind base.Kind, key, value []byte, mode Mode) error {
	lead := p.lead.CompareAndSwap(0, 1)
	if lead && p.expectsNobody(mode) {
		err := p.entryAlone(kind, key, value, mode)
		p.release()
		return err
	}
	w := writers.Get().(*writer)
	w.own = encode(w.own, kind, key, value)
	w.batch, w.mode = w.own, mode
	return p.submit(w, lead)
}

// encode makes buf a batch of one entry.
func encode(buf []byte, kind base.Kind, key, value []byte) []byte {
	return batchrepr.AppendEntry(batchrepr.Init(buf), base.DefaultKeyspace, kind, key, value)
}

// Exclusive runs f while no commit is under way. f must not commit. It runs on
// a poisoned pipeline too.
func (p *Pipeline) Exclusive(f func() error) error {
	if p.lead.CompareAndSwap(0, 1) {
		err := p.runExclusive(f)
		p.release()
		return err
	}
	w := writers.Get().(*writer)
	w.exclusive = f
	return p.submit(w, false)
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
		*err = p.fail(fmt.Errorf("committing: %w", base.NewPanic(r)))
	}
}

func (p *Pipeline) runExclusive(f func() error) (err error) {
	defer p.catchPanic(&err)
	return f()
}

// entryAlone writes one entry without a group. The caller leads.
func (p *Pipeline) entryAlone(kind base.Kind, key, value []byte, mode Mode) (err error) {
	defer p.catchPanic(&err)
	p.buf = encode(p.buf, kind, key, value)
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
	err := p.write(mode)
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
		if err := p.append(mode); err != nil {
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
	for _, b := range p.batches {
		if err := p.env.Apply(b, p.last+1); err != nil {
			return p.fail(err)
		}
		p.last += base.SeqNum(batchrepr.Count(b))
	}
	p.env.Publish(p.last)
	return nil
}

// append makes room for p.batches, numbers them and logs them.
func (p *Pipeline) append(mode Mode) error {
	var bytes int64
	var entries uint64
	for _, b := range p.batches {
		bytes += int64(len(b))
		entries += uint64(batchrepr.Count(b))
	}
	if entries >= uint64(base.MaxSeqNum-p.last) {
		return fmt.Errorf("%w: sequence numbers are used up", base.ErrTooLarge)
	}
	if err := p.env.Room(p.batches, bytes, int(entries), mode); err != nil {
		return err
	}
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

// release gives up the lead: to the first in the queue, if there is one.
func (p *Pipeline) release() {
	for {
		if p.waiting.Load() > 0 {
			if w := p.pop(); w != nil {
				w.signal(leading)
				return
			}
		}
		p.lead.Store(0)
		// A writer that queued after the look above and found the lead still
		// taken must not be left alone.
		if p.waiting.Load() == 0 || !p.lead.CompareAndSwap(0, 1) {
			return
		}
	}
}

// submit sees w done: with lead, by leading at once, otherwise from the queue.
// It gives w back to the pool.
func (p *Pipeline) submit(w *writer, lead bool) error {
	switch {
	case lead:
		p.gather(p.lastLen - 1)
		p.leadGroup(w)
	case !p.push(w):
		w.err = base.ErrBusy
	default:
		if p.lead.CompareAndSwap(0, 1) {
			p.release() // the lead fell free meanwhile: to the first, perhaps w
		}
		if w.wait() != leading {
			break
		}
		if w.exclusive != nil {
			w.err = p.runExclusive(w.exclusive)
			p.release()
			break
		}
		if w.mode&Sync != 0 {
			p.gather(int(p.waiting.Load()) + p.lastLen)
		}
		p.leadGroup(w)
	}
	err := w.err
	w.free()
	return err
}

// leadGroup does the writes of w and of those who wait behind it.
func (p *Pipeline) leadGroup(w *writer) {
	p.buildGroup(w)
	p.writeGroup(w)
	followers := w.next
	p.release()
	for followers != nil {
		f := followers
		followers = f.next // f is its owner's again after signal
		f.signal(done)
	}
}

// expectsNobody reports whether a leader that found no queue had better go
// ahead alone: always, unless a sync is coming that others are about to ask
// for as well.
func (p *Pipeline) expectsNobody(mode Mode) bool { return mode&Sync == 0 || p.lastLen <= 1 }

// gatherYields is how often a leader yields to let others queue. A yield costs
// well below 1 us where nothing else runs; two are as good as fifty.
const gatherYields = 2

// gather lets up to n writers queue before a sync starts: those whose sync has
// just ended usually come back at once, and one sync for all beats one for the
// first of them and another for the rest (measured: 16 writers for each sync
// instead of 8.5).
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
// behind w, or back in the queue if w is a NoStall writer itself.
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
	for ; w != nil; w = w.next {
		if w.err == nil {
			w.err = err
		}
	}
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
	mode, members := Mode(0), 0
	for ; w != nil; w = w.next {
		members++
		mode |= w.mode
		if batchrepr.Count(w.batch) > 0 {
			p.batches = append(p.batches, w.batch)
		}
	}
	err := p.write(mode)
	clear(p.batches)
	p.lastLen = members
	return err
}
