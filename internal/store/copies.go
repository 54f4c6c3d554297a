package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
)

// copies counts the copies and the other long work of a database, which Close waits for.
type copies struct {
	mu     sync.Mutex // a leaf
	closed atomic.Bool
	ended  sync.WaitGroup // those under way; Add is called with mu held

	statsMu sync.Mutex // a leaf
	ingests IngestStats
}

// begin counts a copy as under way until ended.Done.
func (c *copies) begin() error {
	if err := base.NotWithin(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return base.ErrDatabaseClosed
	}
	c.ended.Add(1)
	return nil
}

// close refuses further copies, and returns when those under way have ended.
func (c *copies) close() {
	c.mu.Lock()
	c.closed.Store(true)
	c.mu.Unlock()
	c.ended.Wait()
}

// WhileOpen runs f, whose end Close waits for. ended, which f asks again and again where it takes
// long, fails with base.ErrClosed after Close has begun, and so does WhileOpen.
func (db *DB) WhileOpen(f func(ended func() error) error) error {
	if err := db.copies.begin(); err != nil {
		return err
	}
	defer db.copies.ended.Done()
	return f(func() error {
		if db.copies.closed.Load() {
			return base.ErrDatabaseClosed
		}
		return nil
	})
}

// Long runs f while a database is open: stop, which f asks again and again, gives base.ErrClosed
// after Close has begun, or ctx's error when ctx is done. A panic makes the database read-only.
func Long(ctx context.Context, h Host, f func(stop func() error) error) error {
	return h.WhileOpen(func(ended func() error) (err error) {
		defer h.Health().CatchPanic(&err)
		err = f(func() error {
			if err := ended(); err != nil {
				return err
			}
			return ctx.Err()
		})
		var p *base.Panic
		if errors.As(err, &p) { // that was recovered on another goroutine
			err = h.Health().Fail(err)
		}
		return err
	})
}
