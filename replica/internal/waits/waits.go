// Package waits is what goroutines wait for: an index, or an answer that several share.
package waits

import (
	"context"
	"sync"
)

// Index is an index that goroutines wait for.
type Index struct {
	mu      sync.Mutex
	at      uint64
	changed chan struct{} // closed when at changes; nil while nobody waits
}

// Set sets the index.
func (p *Index) Set(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at = index; p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Get returns the index.
func (p *Index) Get() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Wait returns when the index was reached.
func (p *Index) Wait(ctx context.Context, index uint64) error {
	for {
		p.mu.Lock()
		if p.at >= index {
			p.mu.Unlock()
			return nil
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Rounds shares answers about an index: readers that come while one is under way share the next.
type Rounds struct {
	mu      sync.Mutex
	next    *round
	running bool
}

type round struct {
	done  chan struct{}
	index uint64
	err   error
}

// Share returns the result of a call of f that begins after the call of Share, or that of another
// caller's f.
func (q *Rounds) Share(ctx context.Context, f func() (uint64, error)) (uint64, error) {
	q.mu.Lock()
	if q.next == nil {
		q.next = &round{done: make(chan struct{})}
	}
	r := q.next // it begins after now
	if !q.running {
		q.running = true
		go q.run(f)
	}
	q.mu.Unlock()
	select {
	case <-r.done:
		return r.index, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *Rounds) run(f func() (uint64, error)) {
	for {
		q.mu.Lock()
		r := q.next
		if q.next = nil; r == nil {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		r.index, r.err = f()
		close(r.done)
	}
}
