package lsm

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/wal"
)

// RecoveryReport says what Open found in the logs of the last run.
type RecoveryReport struct {
	Logs      int          // logs replayed
	Records   uint64       // batches replayed
	Entries   uint64       // puts and deletes in these batches
	Dropped   []DroppedLog // what was not replayed, and why
	SetAside  []string     // names of the copies *.lost that were made of damaged logs
	LastSeq   uint64       // sequence number of the last write found
	WasClean  bool         // nothing was dropped
	TornBytes int64        // bytes dropped as the torn ends of logs, which a crash leaves
}

// DroppedLog is a stretch of a log that was not replayed.
type DroppedLog struct {
	File   string // name within the directory
	Offset int64  // bytes from the start of the file
	Bytes  int64  // length
	Reason string // in words, lower case
}

// RecoveryReport returns what this Open found. It does not change, and is answered
// after Close too.
func (db *DB) RecoveryReport() RecoveryReport { return db.recovery }

// replay collects the memtables that the logs are read back into.
type replay struct {
	wal.Replay
	db      *DB
	tables  []*tree.Sealed // oldest first, each with a reference
	written uint64         // entries that came into tables of the disk
}

// logs reads the logs that the manifest says are needed into memtables. On disk
// it makes tables at most, and those only a new MANIFEST makes part of the
// database.
func (r *replay) logs() error {
	db := r.db
	r.Replay = wal.Replay{FS: db.opts.FS, Dir: db.dir, Last: db.manifest.LastSeq(), Apply: r.apply}
	nums, err := r.Needed(db.manifest.Knows, db.manifest.LogNum(), db.manifest.PrevLogNum())
	if err != nil {
		return err
	}
	if err := r.Run(nums, db.manifest.LogNum()); err != nil {
		return err
	}
	found := &r.Report
	db.recovery = RecoveryReport{
		Logs: found.Logs, Records: found.Records, Entries: found.Entries, TornBytes: found.TornBytes,
		LastSeq: uint64(r.Last), WasClean: len(found.Dropped) == 0,
	}
	for _, d := range found.Dropped {
		db.recovery.Dropped = append(db.recovery.Dropped, DroppedLog(d))
	}
	if !db.recovery.WasClean {
		db.health.logger.Warn("part of the log was dropped", "dir", db.dir, "dropped", found.Dropped)
	}
	return nil
}

// free gives up the memtables, as far as nothing else holds them.
func (r *replay) free() {
	for _, s := range r.tables {
		s.Mem.Unref()
	}
	r.tables = nil
}

// apply inserts one batch into the newest memtable, starting another when that
// is full.
func (r *replay) apply(num uint64, batch []byte) error {
	n, seq := batchrepr.Count(batch), batchrepr.Seq(batch)
	mem, err := r.room(int64(len(batch)), int(n), num)
	if err != nil {
		return err
	}
	if err := mem.Mem.Apply(batch, seq); err != nil {
		return err
	}
	mem.Last = max(r.Last, seq+base.SeqNum(n)-1)
	return nil
}

// room returns a memtable for a batch of so many bytes and entries of log num.
// Before there are more memtables than an open database has, the oldest becomes
// a table; a read-only database has to hold them all.
func (r *replay) room(bytes int64, entries int, num uint64) (*tree.Sealed, error) {
	var prev *memtable.MemTable
	if n := len(r.tables); n > 0 {
		newest := r.tables[n-1]
		if newest.Mem.Room(bytes, entries) == nil {
			return newest, nil
		}
		prev = newest.Mem
		if n >= r.db.opts.MaxMemtables && !r.db.opts.ReadOnly {
			if err := r.writeOldest(); err != nil {
				return nil, err
			}
		}
	}
	mem, err := r.db.tree.NewMemTable(prev, bytes, entries)
	s := &tree.Sealed{Mem: mem, FirstLog: num}
	r.tables = append(r.tables, s)
	return s, err
}

// writeOldest writes the oldest memtable into tables of the version to come.
func (r *replay) writeOldest() error {
	s := r.tables[0]
	err := r.db.jobs.WriteMemTable(r.db.tree, s, func(result compact.Result) error {
		r.written += result.EntriesIn
		return r.db.manifest.Stage(&manifest.Edit{Added: result.Added})
	})
	if err != nil {
		return err
	}
	r.tables = r.tables[1:]
	s.Mem.Unref()
	return nil
}

// finish writes the rest of what was replayed into tables and starts a new log:
// nothing is ever appended to an old one. When all of it is durable, a new
// MANIFEST makes it the database, in one step, and what it does not name goes.
// Before that step a failure or a crash has changed nothing but for files that
// nobody knows.
func (r *replay) finish() error {
	db := r.db
	for len(r.tables) > 0 {
		if err := r.writeOldest(); err != nil {
			return err
		}
	}
	// Only with all entries in tables may the logs become obsolete.
	if r.written != db.recovery.Entries {
		return fmt.Errorf("%d entries were replayed, %d came into tables; the logs are kept", db.recovery.Entries, r.written)
	}
	err := r.SetAside()
	db.recovery.SetAside = r.Report.SetAside
	if err != nil {
		return err
	}
	db.manifest.SetLastSeq(r.Last)
	if err := r.commit(); err != nil {
		return err
	}
	db.adopt(nil, db.wal.Num())
	db.manifest.TakeObsolete() // removeObsolete finds them
	if err := db.removeObsolete(); err != nil {
		db.health.warn("files of an earlier run stay until the next opening", err)
	}
	return nil
}

// commit starts a log and the MANIFEST. A new database has its MANIFEST first:
// without one, a log looks like the rest of a database that is damaged.
func (r *replay) commit() error {
	db := r.db
	fresh := db.manifest.ManifestNum() == 0
	if fresh {
		if err := db.manifest.StartManifest(); err != nil {
			return err
		}
	}
	log, err := db.wal.Rotate(r.Last)
	if err != nil {
		return err
	}
	edit := &manifest.Edit{}
	edit.SetLogNum(log)
	edit.SetPrevLogNum(0)
	if fresh {
		v, err := db.manifest.Apply(edit)
		if err == nil {
			v.Unref()
		}
		return err
	}
	if err := db.manifest.Stage(edit); err != nil {
		return err
	}
	return db.manifest.StartManifest()
}

// removeObsolete deletes what an earlier run left behind: files that are the
// database's by name and in no version. All others stay.
func (db *DB) removeObsolete() error {
	names, err := db.opts.FS.List(db.dir)
	if err != nil {
		return err
	}
	live := map[uint64]struct{}{}
	db.manifest.LiveFiles(live)
	for _, name := range names {
		t, num := db.manifest.Knows(name)
		obsolete := false
		switch t {
		case base.FileLog:
			obsolete = num < db.wal.Num()
		case base.FileManifest:
			obsolete = num != db.manifest.ManifestNum()
		case base.FileTable:
			_, isLive := live[num]
			obsolete = !isLive
		case base.FileTemp:
			obsolete = true
		}
		if obsolete {
			db.shared.Files.DeleteFile(name)
		}
	}
	return nil
}
