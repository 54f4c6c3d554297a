// Package store is one open database: it opens and recovers a directory, holds the parts of
// the database together, and closes it. Package lsm is the API on top: options, types,
// conversions.
package store

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/store/work"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// DB is an open database. It is safe for concurrent use.
//
// DB holds the parts together and has no lock of its own but for keyspaces; docs/locking.md
// has the order of theirs. The parts get what they need of each other as functions.
type DB struct {
	// All constant after Open.
	dir      string  // its absolute path
	opts     Options // FS and Format are those of the directory
	dirLock  *vfs.Dir
	health   Health
	recovery Recovery

	cache    *cache.Cache
	manifest *manifest.Set
	wal      *wal.Set        // used by the commit leader
	pipeline *write.Pipeline // orders writes
	shared   tree.Shared     // what all trees need: table files, guards, sequence numbers
	txns     Txns            // transactions
	home     *Keyspace       // the default one
	spaces   keyspaces       // all, dropped ones that are still read included
	jobs     *work.Scheduler // flushes and compactions
	feeds    Feeds           // of changes

	follower Follower // nil: the database follows no other process

	copies      copies      // copies and other long work under way
	folding     atomic.Bool // a flush for long chains of operands is under way
	defaultTTLs atomic.Bool // a keyspace has had a TTL in this opening
	serial      atomic.Bool // an own order is on the caller's thread: writers order what they wrote

	ownOrder atomic.Pointer[base.Comparer] // of the program, in this opening; or nil

	late atomic.Pointer[tree.Tree] // see tree.Shared
}

// Parts are parts of an open database, for metrics and for tests of the engine.
type Parts struct {
	Dir      string
	Opts     Options
	Cache    *cache.Cache
	Manifest *manifest.Set
	WAL      *wal.Set
	Pipeline *write.Pipeline
	Shared   tree.Shared
	Jobs     *work.Scheduler
	Home     *work.Keyspace // the default one
}

// Parts returns the parts that metrics and tests look at. Features have a Host.
func (db *DB) Parts() Parts {
	return Parts{
		Dir: db.dir, Opts: db.opts, Cache: db.cache, Manifest: db.manifest, WAL: db.wal,
		Pipeline: db.pipeline, Shared: db.shared, Jobs: db.jobs, Home: &db.home.work,
	}
}

// Default is the default keyspace.
func (db *DB) Default() *Keyspace { return db.home }

// Recovery is what Open found. It does not change.
func (db *DB) Recovery() *Recovery { return &db.recovery }

// freeFiles frees table files and cache when their last holder has gone: the closed
// database, or an iterator that outlived it. It frees memory and descriptors only,
// see files.Set.Leave.
func (db *DB) freeFiles() {
	// Retired functions run in order, so the tables of the last read states are
	// closed before.
	db.shared.Reads.Retire(func() {
		if db.shared.Files == nil { // Open failed early
			return
		}
		if err := db.shared.Files.Close(); err != nil {
			db.health.Warn("closing table files", err)
		}
		db.cache.Unref()
	})
}

// retiredPanic makes the database read-only after a panic in a retired function.
func (db *DB) retiredPanic(v any, stack []byte) {
	if db.home == nil || db.home.Tree.Closed() { // closed, or not open yet
		db.health.logger.Error("freeing what a database held", "dir", db.dir, "err",
			&base.Panic{Value: v, Stack: stack})
		return
	}
	db.health.panickedAt(v, stack)
}
