package lsm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/epoch"
	"github.com/loamdb/loam/internal/events"
	"github.com/loamdb/loam/internal/files"
	"github.com/loamdb/loam/internal/invariants"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/wal"
)

// DB is an open database. All methods are safe for concurrent use.
//
// Lock order, outermost first: the commit pipeline's lock, or the manifest
// set's (never both), then background.mu, then mu, then the locks inside files
// and cache. mu and background.mu are never held during I/O.
type DB struct {
	// Constant after Open.
	dir      string
	opts     *Options // resolved
	cmp      *base.Comparer
	events   *events.Queue // calls of the listener and records of the logger
	log      *slog.Logger  // delivered by events
	dirLock  io.Closer
	cache    *cache.Cache
	files    *files.Set
	manifest *manifest.Set
	pipeline *commit.Pipeline
	recovery RecoveryReport

	// The read path: atomics, no lock.
	view    atomic.Pointer[view]  // nil once closed
	visible atomic.Uint64         // largest sequence number that reads may see
	failure atomic.Pointer[error] // why the database is read-only
	closing atomic.Bool           // Close was called: writes are refused
	reads   *epoch.Domain         // the guards of reads; what they may see is freed through it
	holds   atomic.Int64          // the open database, and each view: files and cache are needed

	// Guarded by the pipeline: used only by the commit leader or in
	// pipeline.Exclusive.
	wal *wal.Set

	// mu guards the succession of views and the snapshots.
	mu        sync.Mutex
	snapshots snapshotList

	bg    *background
	stats *stats
}

// view is what a read looks at: one state of the memtables and tables. It is
// immutable. A read uses the current view inside a guard as long as it only
// looks at memory; iterators, and reads that do I/O, hold a reference. A view
// holds the database's files and cache: whoever has a view has all that is in it.
//
// A reference is taken only on a view that is current, in a guard or under mu,
// or by somebody who has one: the current view's own reference is given back
// when the guards that may have seen it have exited. So none is ever revived.
type view struct {
	db      *DB
	mem     *memtable.MemTable
	memWAL  uint64    // number of mem's log
	imm     []*sealed // waiting for their flush, newest first
	version *manifest.Version
	refs    atomic.Int64
}

// sealed is a full memtable and the log that holds the same entries.
type sealed struct {
	table *memtable.MemTable
	wal   uint64      // number of the log that the table's entries are in
	last  base.SeqNum // no entry is newer
}

// newView takes over the caller's reference on version and takes its own on
// the memtables.
//
// REQUIRES: the database is not closed.
func (db *DB) newView(mem *memtable.MemTable, memWAL uint64, imm []*sealed, version *manifest.Version) *view {
	v := &view{db: db, mem: mem, memWAL: memWAL, imm: imm, version: version}
	v.refs.Store(1)
	db.holds.Add(1)
	mem.Ref()
	for _, s := range imm {
		s.table.Ref()
	}
	return v
}

// ref takes a reference, see view.
func (v *view) ref() {
	n := v.refs.Add(1)
	if invariants.Enabled {
		invariants.Check(n > 1, "lsm: view revived")
	}
}

// unref gives a reference back. What the last one held is freed in the
// background: a reader does not wait for that.
func (v *view) unref() {
	if v.refs.Add(-1) == 0 {
		v.db.reads.Retire(v.free)
	}
}

// free gives back what the view held. A retired function.
func (v *view) free() {
	v.mem.Unref()
	for _, s := range v.imm {
		s.table.Unref()
	}
	v.version.Unref()
	v.db.unhold()
}

// retire takes the current view's own reference back when the guards that may
// have seen the view have exited.
func (v *view) retire() {
	v.db.reads.Retire(func() {
		if v.refs.Add(-1) == 0 {
			v.free()
		}
	})
}

// setViewLocked makes v current. The old view goes when the reads that may be
// using it have ended.
//
// REQUIRES: db.mu held.
func (db *DB) setViewLocked(v *view) {
	if old := db.view.Swap(v); old != nil {
		old.retire()
	}
}

// acquireView returns the current view with a reference, or nil once closed.
func (db *DB) acquireView() *view {
	g := db.reads.Enter()
	v := db.view.Load()
	if v != nil {
		v.ref()
	}
	g.Exit()
	return v
}

// unhold gives up a hold on what views share: the last one, which is the closed
// database's or an iterator's that outlived it, frees files and cache. It frees
// memory and descriptors only, see files.Set.Leave.
func (db *DB) unhold() {
	if db.holds.Add(-1) > 0 {
		return
	}
	// Behind the tables that the last views gave up.
	db.reads.Retire(func() {
		if db.files == nil { // Open failed early
			return
		}
		if err := db.files.Close(); err != nil {
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
	if db.view.Load() == nil { // closed, or not open yet
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
