package lsm

import (
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/wal"
)

// RecoveryReport says what Open found in the logs of the last run.
type RecoveryReport struct {
	Logs      int    // logs replayed
	Records   uint64 // batches in them
	Entries   uint64
	Dropped   []DroppedLog
	SetAside  []string // files copied to *.lost
	LastSeq   uint64
	WasClean  bool // nothing was dropped
	TornBytes int64
}

// DroppedLog is a stretch of a log that was not replayed.
type DroppedLog struct {
	File   string
	Offset int64
	Bytes  int64
	Reason string
}

// RecoveryReport returns what this Open found.
func (db *DB) RecoveryReport() RecoveryReport { return db.recovery }

// replay collects the memtables that the logs are read back into.
type replay struct {
	wal.Replay
	db     *DB
	tables []*sealed // oldest first
}

// replayLogs reads the logs that the manifest says are needed into memtables.
// It changes nothing on disk.
func (db *DB) replayLogs() (*replay, error) {
	r := &replay{db: db}
	r.Replay = wal.Replay{FS: db.opts.FS, Dir: db.dir, Last: db.manifest.LastSeq(), Apply: r.apply}
	nums, err := db.neededLogs()
	if err != nil {
		return nil, err
	}
	if err := r.Run(nums, db.manifest.LogNum()); err != nil {
		r.free()
		return nil, err
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
		db.log.Warn("part of the log was dropped", "dir", db.dir, "dropped", found.Dropped)
	}
	return r, nil
}

// neededLogs lists the logs to replay, oldest first: regular files whose names
// are the database's.
func (db *DB) neededLogs() ([]uint64, error) {
	names, err := db.opts.FS.List(db.dir)
	if err != nil {
		return nil, err
	}
	var logs []string
	for _, name := range names {
		if t, _ := db.manifest.Knows(name); t != base.FileLog {
			continue
		}
		info, err := db.opts.FS.Stat(filepath.Join(db.dir, name))
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			logs = append(logs, name)
		}
	}
	return wal.Needed(logs, db.manifest.LogNum(), db.manifest.PrevLogNum()), nil
}

// free gives up the memtables, as far as nothing else holds them.
func (r *replay) free() {
	for _, s := range r.tables {
		s.table.Unref()
	}
	r.tables = nil
}

// apply inserts one batch into the newest memtable, starting another when that
// is full.
func (r *replay) apply(num uint64, batch []byte) error {
	n, seq := batchrepr.Count(batch), batchrepr.Seq(batch)
	mem := r.room(int64(len(batch)), int(n), num)
	if err := mem.table.Apply(batch, seq); err != nil {
		return err
	}
	mem.last = max(r.Last, seq+base.SeqNum(n)-1)
	return nil
}

func (r *replay) room(bytes int64, entries int, num uint64) *sealed {
	if n := len(r.tables); n > 0 && r.tables[n-1].table.Room(bytes, entries) == nil {
		return r.tables[n-1]
	}
	o := memtable.Options{Comparer: r.db.cmp, Size: r.db.opts.WriteBufferSize}
	if n := len(r.tables); n > 0 {
		o.EntrySize = r.tables[n-1].table.EntrySize()
	}
	s := &sealed{table: memtable.New(o), wal: num}
	r.tables = append(r.tables, s)
	return s
}

// finishRecovery writes what was replayed into tables and a new manifest, all of
// it durable before the old files go, and starts a new log: nothing is ever
// appended to an old one. A crash on the way replays the same logs again over
// the same entries.
func (db *DB) finishRecovery(r *replay) error {
	if err := r.SetAside(); err != nil {
		return err
	}
	db.recovery.SetAside = r.Report.SetAside
	if err := db.wal.Rotate(r.Last); err != nil {
		return err
	}
	db.manifest.SetLastSeq(r.Last)
	if err := db.manifest.StartManifest(); err != nil {
		return err
	}
	written := uint64(0)
	for len(r.tables) > 0 {
		s := r.tables[0]
		err := db.bg.writeSealed(s, func(result compact.Result) error {
			written += result.EntriesIn
			return db.applyEdit(&manifest.Edit{Added: result.Added})
		})
		if err != nil {
			return err
		}
		s.table.Unref()
		r.tables = r.tables[1:]
	}
	// Only now may the logs become obsolete.
	if written != db.recovery.Entries {
		return fmt.Errorf("loam: %d entries were replayed, %d came into tables; the logs are kept", db.recovery.Entries, written)
	}
	edit := &manifest.Edit{}
	edit.SetLogNum(db.wal.Num())
	edit.SetPrevLogNum(0)
	if err := db.applyEdit(edit); err != nil {
		return err
	}
	db.adopt(nil, db.wal.Num())
	db.manifest.TakeObsolete() // removeObsolete finds them
	return db.removeObsolete()
}

func (db *DB) applyEdit(e *manifest.Edit) error {
	v, err := db.manifest.Apply(e)
	if err == nil {
		v.Unref()
	}
	return err
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
			db.files.DeleteFile(name)
		}
	}
	return nil
}
