package write

import (
	"github.com/loamdb/loam/internal/base"
)

// What ends a writer's wait.
type outcome uint8

const (
	leading outcome = iota // it has the lead
	done                   // err is set
)

// writer is a write in the queue.
type writer struct {
	batch     []byte
	exclusive func() error // instead of a batch
	condition Condition    // of the batch, or nil
	mode      Mode
	err       error
	own       []byte // memory for batch
	next      *writer
	wake      chan outcome // holds one
}

// newWriter is a writer of this pipeline's pool: what waits in a database is woken by that database
// alone.
func (p *Pipeline) newWriter() *writer {
	if w, ok := p.writers.Get().(*writer); ok {
		return w
	}
	return &writer{wake: make(chan outcome, 1)}
}

func (p *Pipeline) free(w *writer) {
	w.batch, w.exclusive, w.condition, w.mode, w.err, w.next = nil, nil, nil, 0, nil, nil
	if cap(w.own) > maxKeptBuffer {
		w.own = nil
	}
	p.writers.Put(w)
}

// wait returns when w has the lead or its commit is done by another leader.
func (w *writer) wait() outcome { return <-w.wake }

// signal ends w's wait. w must not be touched after it.
func (w *writer) signal(o outcome) { w.wake <- o }

// push queues w. It reports false when the leader is stalled and w has NoStall.
func (p *Pipeline) push(w *writer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.mode&NoStall != 0 && p.stalled {
		return false
	}
	if p.tail == nil {
		p.head = w
	} else {
		p.tail.next = w
	}
	p.tail = w
	p.waiting.Add(1)
	return true
}

// pop takes the first writer off the queue.
func (p *Pipeline) pop() *writer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.popLocked()
}

func (p *Pipeline) popLocked() *writer {
	w := p.head
	if w == nil {
		return nil
	}
	if p.head = w.next; p.head == nil {
		p.tail = nil
	}
	w.next = nil
	p.waiting.Add(-1)
	return w
}

// requeue puts a list of writers back in front of the queue.
func (p *Pipeline) requeue(list *writer) {
	if list == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last, n := list, int32(1)
	for ; last.next != nil; last = last.next {
		n++
	}
	if last.next = p.head; p.head == nil {
		p.tail = last
	}
	p.head = list
	p.waiting.Add(n)
}

// buildGroup moves the writers that join w from the queue to the list behind
// w: as many as the size allows, none past an Exclusive.
func (p *Pipeline) buildGroup(w *writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := len(w.batch)
	limit := maxGroup
	if size <= smallBatch {
		limit = size + smallBatch
	}
	for last := w; p.head != nil && p.head.exclusive == nil; last = last.next {
		if size += len(p.head.batch); size > limit {
			return
		}
		last.next = p.popLocked()
	}
}

// BeginStall says that the leader is about to wait for room. Until EndStall, writers
// with NoStall fail with base.ErrBusy, those in the queue too. Only for Env.Room.
func (p *Pipeline) BeginStall() {
	p.mu.Lock()
	p.stalled = true
	var busy, kept, tail *writer
	for w := p.popLocked(); w != nil; w = p.popLocked() {
		if w.mode&NoStall != 0 {
			w.next, busy = busy, w
			continue
		}
		if tail == nil {
			kept = w
		} else {
			tail.next = w
		}
		tail = w
		p.waiting.Add(1)
	}
	p.head, p.tail = kept, tail
	p.mu.Unlock()
	for busy != nil {
		w := busy
		busy = w.next
		w.err = base.ErrBusy
		w.signal(done)
	}
}

// EndStall ends what BeginStall began.
func (p *Pipeline) EndStall() {
	p.mu.Lock()
	p.stalled = false
	p.mu.Unlock()
}
