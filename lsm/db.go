package lsm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/events"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/wal"
)

// DB is an open database. All methods are safe for concurrent use.
//
// Lock order, outermost first: the commit pipeline's lock, or the manifest
// set's (never both), then background.mu, then the tree's, then the locks inside
// files and cache. background.mu and the tree's are never held during I/O.
type DB struct {
	// Constant after Open.
	dir      string
	opts     *Options // resolved
	cmp      *base.Comparer
	events   *events.Queue // calls of the listener and records of the logger
	log      *slog.Logger  // delivered by events
	dirLock  io.Closer
	cache    *cache.Cache
	manifest *manifest.Set
	pipeline *commit.Pipeline
	recovery RecoveryReport

	shared tree.Shared
	tree   *tree.Tree

	failure atomic.Pointer[error] // why the database is read-only
	closing atomic.Bool           // Close was called: writes are refused

	// Guarded by the pipeline: used only by the commit leader or in
	// pipeline.Exclusive.
	wal *wal.Set

	bg    *background
	stats *stats
}

// freeFiles frees table files and cache when their last holder has gone: the closed
// database, or an iterator that outlived it. It frees memory and descriptors only,
// see files.Set.Leave.
func (db *DB) freeFiles() {
	// Behind the tables that the last read states gave up.
	db.shared.Reads.Retire(func() {
		if db.shared.Files == nil { // Open failed early
			return
		}
		if err := db.shared.Files.Close(); err != nil {
			db.log.Warn("closing table files", "dir", db.dir, "err", err)
		}
		db.cache.Unref()
	})
}

// fail makes the database read-only for good, with err as the cause in every
// later error, and returns that. Reads and Close go on working.
func (db *DB) fail(err error) error {
	cause, first := db.setFailure(err)
	if first {
		db.bg.wake()
	}
	return cause
}

// setFailure is fail without waking those who wait for the background: for
// holders of background.mu.
func (db *DB) setFailure(err error) (cause error, first bool) {
	cause = err
	if !errors.Is(err, ErrReadOnly) {
		cause = fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if !db.failure.CompareAndSwap(nil, &cause) {
		return *db.failure.Load(), false
	}
	if db.pipeline != nil {
		db.pipeline.Poison(cause)
	}
	db.log.Error("database is now read-only", "dir", db.dir, "cause", err)
	if f := db.opts.Events.ReadOnly; f != nil {
		db.events.PostLast(func() { f(err) })
	}
	return cause, true
}

// writable returns why the database takes no writes, or nil.
func (db *DB) writable() error {
	if db.closing.Load() {
		return ErrClosed
	}
	if p := db.failure.Load(); p != nil {
		return *p
	}
	if db.opts.ReadOnly {
		return fmt.Errorf("%w: it was opened so", ErrReadOnly)
	}
	return nil
}

// retiredPanic makes the database read-only after a panic in a retired function.
func (db *DB) retiredPanic(v any, stack []byte) {
	err := &base.Panic{Value: v, Stack: stack}
	if db.tree == nil || db.tree.Closed() { // closed, or not open yet
		db.log.Error("freeing what a database held", "dir", db.dir, "err", err)
		return
	}
	db.fail(err)
}

// recovered turns a panic (from a bug, or from what the user plugged in) into
// an error that makes the database read-only.
func (db *DB) recovered(r any, err *error) { *err = db.panicked(r) }

func (db *DB) panicked(r any) error { return db.fail(base.NewPanic(r)) }

// catch is deferred where a panic is to become err and the end of writing.
func (db *DB) catch(err *error) {
	if r := recover(); r != nil {
		db.recovered(r, err)
	}
}

// failOnPanic makes the database read-only if err stands for a panic that a
// package below recovered.
func (db *DB) failOnPanic(err error) {
	var p *base.Panic
	if err != nil && errors.As(err, &p) {
		db.fail(err)
	}
}
