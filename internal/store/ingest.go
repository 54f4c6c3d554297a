package store

import (
	"context"
	"errors"

	"github.com/loamdb/loam/internal/base"
)

// Long runs f, work that Close ends and waits for: stop, which f asks again and again, then gives
// base.ErrClosed, or ctx's error when ctx is done.
func (db *DB) Long(ctx context.Context, f func(stop func() error) error) (err error) {
	if err := db.copies.begin(); err != nil {
		return err
	}
	defer db.copies.ended.Done()
	defer db.Health.CatchPanic(&err)
	err = f(func() error {
		if db.copies.closed.Load() {
			return base.ErrDatabaseClosed
		}
		return ctx.Err()
	})
	var p *base.Panic
	if errors.As(err, &p) { // that was recovered on another goroutine
		err = db.Health.fail(err)
	}
	return err
}

// KeepKeyspaces runs f while no keyspace is created or dropped, and no checkpoint takes its state.
func (db *DB) KeepKeyspaces(f func() error) error {
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	return f()
}

// IngestStats counts ingests and loads.
type IngestStats struct {
	Count, Failed int64  // ingests and loads that ended; those that failed
	Tables        uint64 // tables that became the database's
	Bytes         uint64 // of these tables
	Copied        uint64 // tables that were copied, because a link was not possible
	Loaded        uint64 // entries that loads brought
	// sorted runs that loads wrote, because the entries did not fit into memory
	Runs uint64
}

// NoteIngest counts an ingest or a load.
func (db *DB) NoteIngest(s IngestStats) {
	c := &db.copies
	c.statsMu.Lock()
	defer c.statsMu.Unlock()
	c.ingests.Count += s.Count
	c.ingests.Failed += s.Failed
	c.ingests.Tables += s.Tables
	c.ingests.Bytes += s.Bytes
	c.ingests.Copied += s.Copied
	c.ingests.Loaded += s.Loaded
	c.ingests.Runs += s.Runs
}

// IngestStats counts the ingests and loads so far.
func (db *DB) IngestStats() IngestStats {
	db.copies.statsMu.Lock()
	defer db.copies.statsMu.Unlock()
	return db.copies.ingests
}
