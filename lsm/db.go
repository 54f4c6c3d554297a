package lsm

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/epoch"
	"github.com/loamdb/loam/internal/files"
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
	log      *slog.Logger
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
	refs    atomic.Int64          // the open database, and each open iterator

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
// immutable. A Get uses the current view inside an epoch guard; iterators hold
// a reference.
type view struct {
	mem     *memtable.Table
	memWAL  uint64    // number of mem's log
	imm     []*sealed // waiting for their flush, newest first
	version *manifest.Version
	refs    atomic.Int32
}

// sealed is a full memtable and the log that holds the same entries.
type sealed struct {
	table *memtable.Table
	wal   uint64      // number of the log that the table's entries are in
	last  base.SeqNum // no entry is newer
}

// newView takes over the caller's reference on version and takes its own on
// the memtables.
func newView(mem *memtable.Table, memWAL uint64, imm []*sealed, version *manifest.Version) *view {
	v := &view{mem: mem, memWAL: memWAL, imm: imm, version: version}
	v.refs.Store(1)
	mem.Ref()
	for _, s := range imm {
		s.table.Ref()
	}
	return v
}

func (v *view) unref() {
	if v.refs.Add(-1) > 0 {
		return
	}
	v.mem.Unref()
	for _, s := range v.imm {
		s.table.Unref()
	}
	v.version.Unref()
}

// setViewLocked makes v current. The old view goes when the reads that may be
// using it have ended.
//
// REQUIRES: db.mu held.
func (db *DB) setViewLocked(v *view) {
	if old := db.view.Swap(v); old != nil {
		epoch.Retire(old.unref)
	}
}

// acquireView returns the current view with a reference, or nil once closed.
func (db *DB) acquireView() *view {
	g := epoch.Enter()
	v := db.view.Load()
	if v != nil {
		v.refs.Add(1)
	}
	g.Exit()
	return v
}

// unrefDB gives up a hold on the open database; the last one frees what
// iterators may still have been reading.
func (db *DB) unrefDB() error {
	if db.refs.Add(-1) > 0 {
		return nil
	}
	epoch.Drain()
	err := db.files.Close()
	db.cache.Unref()
	return err
}

// fail makes the database read-only for good, with err as the cause in every
// later error, and returns that. Reads and Close go on working.
func (db *DB) fail(err error) error {
	cause := fmt.Errorf("%w: %w", ErrReadOnly, err)
	if !db.failure.CompareAndSwap(nil, &cause) {
		return *db.failure.Load()
	}
	db.pipeline.Poison(cause)
	db.bg.wake()
	db.log.Error("database is now read-only", "dir", db.dir, "cause", err)
	if f := db.opts.Events.ReadOnly; f != nil {
		f(err)
	}
	return cause
}

// writable returns why the database takes no writes, or nil.
func (db *DB) writable() error {
	if p := db.failure.Load(); p != nil {
		return *p
	}
	if db.view.Load() == nil {
		return ErrClosed
	}
	if db.opts.ReadOnly {
		return fmt.Errorf("%w: it was opened so", ErrReadOnly)
	}
	return nil
}

// recovered turns a panic (from a bug, or from what the user plugged in) into
// an error that makes the database read-only.
func (db *DB) recovered(r any, err *error) { *err = db.panicked(r) }

func (db *DB) panicked(r any) error { return db.fail(fmt.Errorf("panic: %v\n%s", r, debug.Stack())) }
