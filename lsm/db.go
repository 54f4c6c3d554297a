package lsm

import (
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/jobs"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/wal"
)

// DB is an open database. All methods are safe for concurrent use.
type DB struct {
	// DB holds the parts together and has no lock of its own; docs/locking.md has the
	// order of theirs. The parts get what they need of each other as functions.
	//
	// All constant after Open.
	dir      string
	opts     *Options // resolved
	dirLock  io.Closer
	health   health
	recovery RecoveryReport

	cache    *cache.Cache
	manifest *manifest.Set
	wal      *wal.Set         // used by the commit leader
	pipeline *commit.Pipeline // orders writes
	shared   tree.Shared      // what all trees need: table files, guards, sequence numbers
	tree     *tree.Tree       // the default keyspace
	spaces   keyspaces        // the others
	jobs     *jobs.Scheduler  // flushes and compactions
}

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
			db.health.warn("closing table files", err)
		}
		db.cache.Unref()
	})
}

// retiredPanic makes the database read-only after a panic in a retired function.
func (db *DB) retiredPanic(v any, stack []byte) {
	if db.tree == nil || db.tree.Closed() { // closed, or not open yet
		db.health.logger.Error("freeing what a database held", "dir", db.dir, "err", &base.Panic{Value: v, Stack: stack})
		return
	}
	db.health.panickedAt(v, stack)
}
