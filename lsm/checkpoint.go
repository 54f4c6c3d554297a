package lsm

import (
	"context"
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// CheckpointMetrics counts checkpoints, or backups.
type CheckpointMetrics struct {
	// Count is the number of checkpoints or backups that ended, failed ones included.
	Count    int64
	Failed   int64         // Failed is the number of those that failed.
	Duration time.Duration // Duration is the sum of their durations, failed ones included.
	// TablesLinked is the number of tables that they share with the database, or with earlier
	// backups.
	TablesLinked uint64
	// TablesCopied is the number of tables copied; a checkpoint copies those that it cannot link.
	TablesCopied uint64
	BytesCopied  uint64 // BytesCopied is the bytes of tables and logs copied.
}

// Checkpoint makes dir a database of its own that has what this one has now: all keyspaces at one
// moment between the call and its return, each batch whole, writes without Sync included. All of it
// is durable when Checkpoint returns. Writes, flushes and compactions go on meanwhile.
//
// Tables and full logs are hard links; the MANIFEST and the current log are copied. So it takes
// about as long for a large database as for a small one, and space only for what either database
// replaces later. Where links do not reach, as on another file system, tables are copied. Nothing
// that one of the two writes is in a file of the other.
//
// dir must not exist, or be empty (ErrExists), in a directory that exists, and not lie in the
// database, nor be where a file system is mounted (ErrInvalidArgument). The copy is made in the
// directory dir + ".incomplete", which is renamed at the end: nothing is left of a checkpoint that
// failed, and what a crash leaves is removed by the next one of the same name. Checkpoint ends with
// ctx's error when ctx is done, with ErrClosed by Close, with the cause if the database became
// read-only, and with ErrNoSpace or another error of the file system. One that was opened with
// ReadOnly has checkpoints, too.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if ctx == nil {
		return base.Invalidf("Checkpoint needs a context")
	}
	if err := db.engine.Copies.Checkpoint(ctx, db.engine, dir); err != nil {
		return fmt.Errorf("checkpoint in %s: %w", dir, err)
	}
	return nil
}
