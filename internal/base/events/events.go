// Package events delivers what a database tells its user: calls of its listener
// and records of its logger. Both are code of the user, which may panic, block,
// or call the database, Close included. So no goroutine of the engine calls it:
// each call goes into a queue, and one goroutine, which exists only while there
// is something to deliver, makes them one after the other, in order, with no lock
// held.
//
// The queue is bounded. While the user's code blocks, further calls are dropped
// and counted, and nothing of the database waits.
package events

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// limit is how many calls wait at most.
const limit = 1024

// Queue delivers calls. It is safe for concurrent use.
type Queue struct {
	onPanic func(v any, stack []byte) // constant

	mu        sync.Mutex // leaf
	calls     []func()
	dropped   uint64
	closed    bool
	idle      chan struct{} // closed when the delivering goroutine ends; nil while there is none
	deliverer uint64        // id of the delivering goroutine
}

// New makes a Queue. onPanic takes a panic of a call, on the delivering goroutine; the calls after
// it are made all the same.
func New(onPanic func(v any, stack []byte)) *Queue { return &Queue{onPanic: onPanic} }

// Post queues a call, or drops it if too many wait or the Queue is closed. It
// never blocks.
func (q *Queue) Post(call func()) { q.post(call, limit) }

// PostLast is Post for a call that is made once in the life of a database and is
// not to be dropped, however many wait.
func (q *Queue) PostLast(call func()) { q.post(call, limit+8) }

func (q *Queue) post(call func(), limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if len(q.calls) >= limit {
		q.dropped++
		return
	}
	q.calls = append(q.calls, call)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.deliver(q.idle)
	}
}

// Dropped is how many calls were dropped because too many waited.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func (q *Queue) deliver(idle chan struct{}) {
	defer close(idle)
	id := goroutine()
	for {
		q.mu.Lock()
		q.deliverer = id
		if len(q.calls) == 0 {
			q.calls, q.idle, q.deliverer = nil, nil, 0
			q.mu.Unlock()
			return
		}
		call := q.calls[0]
		q.calls[0] = nil
		q.calls = q.calls[1:]
		q.mu.Unlock()
		q.run(call)
	}
}

// run makes a call. Whether it returns, panics, or ends its goroutine
// (runtime.Goexit), the calls after it are made.
func (q *Queue) run(call func()) {
	ended := false
	defer func() {
		if v := recover(); v != nil {
			q.onPanic(v, debug.Stack())
		} else if !ended { // Goexit: another goroutine goes on
			q.mu.Lock()
			q.idle = make(chan struct{})
			go q.deliver(q.idle)
			q.mu.Unlock()
		}
	}()
	call()
	ended = true
}

// Close returns when all that was posted is delivered, or after patience: what
// then still waits is dropped. No call begins after Close has returned; one that
// blocks may still be under way. A call that closes its own Queue is not waited
// for, and is the last.
func (q *Queue) Close(patience time.Duration) {
	q.mu.Lock()
	idle, own := q.idle, q.deliverer != 0 && q.deliverer == goroutine()
	q.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for idle != nil && !own && patience > 0 {
		select {
		case <-idle:
			q.mu.Lock()
			idle = q.idle // another one, if there was more
			q.mu.Unlock()
		case <-timer.C:
			patience = 0
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.dropped += uint64(len(q.calls))
	q.calls = nil
}

// goroutine is the id of the calling goroutine, as its stack trace has it. Close
// needs it to know a call of its own.
func goroutine() uint64 {
	var buf [40]byte
	head, _ := bytes.CutPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(head, []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return id
}
