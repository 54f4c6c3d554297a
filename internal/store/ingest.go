package store

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Lead is what the last step of an ingest does with the lead of the pipeline, in Assign.
type Lead struct{ k *Keyspace }

// Assign runs f with the lead of the pipeline. f gets the first of n sequence numbers, and returns
// how many it used, or may have used; see write.Pipeline.Assign.
func (k *Keyspace) Assign(n int, f func(l Lead, first base.SeqNum) (used int, err error)) error {
	defer k.db.wakeFeeds()
	return k.db.pipeline.Assign(n, func(first base.SeqNum) (used int, err error) {
		return f(Lead{k}, first)
	})
}

// Flush writes the memtables of the keyspace into tables.
func (l Lead) Flush() error {
	jobs, k := l.k.db.jobs, &l.k.work
	return errors.Join(jobs.Seal(k), jobs.WaitFlushed(k, 0))
}

// SkipTo says in the log that the sequence numbers before next are in no log; see wal.Set.SkipTo.
func (l Lead) SkipTo(next base.SeqNum) error { return l.k.db.wal.SkipTo(next) }

// SyncLogs makes the logs durable.
func (l Lead) SyncLogs() error { return l.k.db.wal.Sync() }

// Install makes tables live; see work.Scheduler.Ingest. The log tells that it has done so, see
// wal.Set.Installed. last is the last sequence number of the ingest.
func (l Lead) Install(
	tables []*manifest.FileMeta, mode picker.IngestMode, last base.SeqNum,
) (kept bool, err error) {
	kept, err = l.k.db.jobs.Ingest(&l.k.work, tables, mode)
	if err == nil {
		l.k.db.wal.Installed(last)
	}
	return kept, err
}

// IngestStats counts ingests and loads.
type IngestStats struct {
	Count, Failed int64  // ingests and loads that ended; failed ones among them
	Tables        uint64 // tables added to the database
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
