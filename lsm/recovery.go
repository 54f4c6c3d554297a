package lsm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/record"
)

// RecoveryReport says what Open found in the logs of the last run.
type RecoveryReport struct {
	Logs      int    // logs replayed
	Records   uint64 // batches in them
	Entries   uint64
	Dropped   []DroppedLog
	SetAside  []string // files renamed to *.lost
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

// replay is the state of reading the logs back.
type replay struct {
	db       *DB
	tables   []*sealed   // oldest first
	last     base.SeqNum // the largest of manifest and logs
	replayed base.SeqNum // the largest of the logs
	lost     []string    // logs to be set aside
	torn     bool        // some log so far had a torn tail
}

// replayLogs reads the logs that the manifest says are needed into memtables.
// It changes nothing on disk. A failure to read fails the open; damage ends the
// replay there, and what follows is reported and set aside.
func (db *DB) replayLogs() (*replay, error) {
	r := &replay{db: db, last: db.manifest.LastSeq()}
	nums, err := db.neededLogs()
	if err != nil {
		return nil, err
	}
	report := &db.recovery
	if first := db.manifest.LogNum(); first != 0 && !slices.Contains(nums, first) {
		report.Dropped = append(report.Dropped, DroppedLog{File: base.FileName(base.FileLog, first), Reason: "the log is missing"})
	}
	for _, num := range nums {
		name := base.FileName(base.FileLog, num)
		if len(r.lost) > 0 {
			if err := r.dropWhole(name, "stands behind a damaged log"); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.log(num, name); err != nil {
			for _, s := range r.tables {
				s.table.Unref()
			}
			return nil, err
		}
	}
	report.LastSeq = uint64(r.last)
	report.WasClean = len(report.Dropped) == 0
	if !report.WasClean {
		db.log.Warn("part of the log was dropped", "dir", db.dir, "dropped", report.Dropped)
	}
	return r, nil
}

// neededLogs lists the logs to replay, oldest first, and takes the numbers of
// all files in the directory out of use.
func (db *DB) neededLogs() ([]uint64, error) {
	names, err := db.opts.FS.List(db.dir)
	if err != nil {
		return nil, err
	}
	var nums []uint64
	for _, name := range names {
		t, num := base.ParseFileName(name)
		if t == base.FileUnknown {
			continue
		}
		db.manifest.MarkFileNumUsed(num)
		if t == base.FileLog && (num >= db.manifest.LogNum() || num == db.manifest.PrevLogNum() && num != 0) {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// log replays one log.
func (r *replay) log(num uint64, name string) error {
	f, err := r.db.opts.FS.Open(filepath.Join(r.db.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	reader := record.NewReader(f, f.Size(), name)
	r.db.recovery.Logs++
	for first := true; ; first = false {
		batch, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, base.ErrCorruption):
			torn := reader.Tail()
			r.drop(name, reader.Offset(), f.Size()-reader.Offset(), err, torn)
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if first && r.behindHole(batch) {
			r.drop(name, 0, f.Size(), fmt.Errorf("the log before it lost its end: that ends with sequence number %d, this begins with %d", r.last, batchrepr.Seq(batch)), false)
			return nil
		}
		err = batchrepr.Validate(batch)
		if err == nil && batchrepr.Count(batch) > 0 && batchrepr.Seq(batch) <= r.replayed {
			err = base.Corruptf("wal record", "sequence number %d follows %d", batchrepr.Seq(batch), r.replayed)
		}
		if err != nil {
			r.drop(name, reader.Offset(), f.Size()-reader.Offset(), err, false)
			return nil
		}
		if err := r.apply(num, batch); err != nil {
			return err
		}
	}
}

// behindHole reports whether a log that begins with this batch was written
// after entries that are gone: see walQueue for the mark. Other engines leave
// no mark, and gaps of their own, so there only a torn log before it counts.
func (r *replay) behindHole(first []byte) bool {
	marked := len(first) == batchrepr.HeaderLen && batchrepr.Count(first) == 0
	return (marked || r.torn) && len(first) >= batchrepr.HeaderLen && batchrepr.Seq(first) > r.last+1
}

// drop reports what is not replayed. Beyond a torn tail there is nothing of
// value; otherwise the file is set aside, and the logs after it too.
func (r *replay) drop(name string, offset, n int64, why error, torn bool) {
	report := &r.db.recovery
	report.Dropped = append(report.Dropped, DroppedLog{File: name, Offset: offset, Bytes: n, Reason: why.Error()})
	if torn {
		report.TornBytes += n
		r.torn = true
	} else if !slices.Contains(r.lost, name) {
		r.lost = append(r.lost, name)
	}
}

func (r *replay) dropWhole(name, why string) error {
	info, err := r.db.opts.FS.Stat(filepath.Join(r.db.dir, name))
	if err != nil {
		return err
	}
	r.lost = append(r.lost, name)
	r.drop(name, 0, info.Size(), errors.New(why), false)
	return nil
}

// apply inserts one batch into the newest memtable, starting another when that
// is full.
func (r *replay) apply(num uint64, batch []byte) error {
	n := batchrepr.Count(batch)
	r.db.recovery.Records++
	r.db.recovery.Entries += uint64(n)
	seq := batchrepr.Seq(batch)
	if n == 0 {
		return nil
	}
	mem := r.room(int64(len(batch)), int(n), num)
	if err := mem.table.Apply(batch, seq); err != nil {
		return err
	}
	r.replayed = seq + base.SeqNum(n) - 1
	r.last = max(r.last, r.replayed)
	mem.last = r.last
	return nil
}

func (r *replay) room(bytes int64, entries int, num uint64) *sealed {
	if n := len(r.tables); n > 0 && r.tables[n-1].table.Room(bytes, entries) {
		return r.tables[n-1]
	}
	o := memtable.Options{Comparer: r.db.cmp, Size: r.db.opts.WriteBufferSize}
	if n := len(r.tables); n > 0 {
		o.EntrySize = r.tables[n-1].table.EntrySize()
	}
	s := &sealed{table: memtable.New(o), wal: num}
	r.tables = append(r.tables, s)
	s.table.Room(bytes, entries)
	return s
}

// finishRecovery writes what was replayed into tables and a new manifest, all of
// it durable before the old files go, and starts a new log: nothing is ever
// appended to an old one. A crash on the way replays the same logs again over
// the same entries.
func (db *DB) finishRecovery(r *replay) error {
	if err := db.setAside(r.lost); err != nil {
		return err
	}
	if err := db.wal.rotate(r.last); err != nil {
		return err
	}
	db.manifest.SetLastSeq(r.last)
	if err := db.manifest.StartManifest(); err != nil {
		return err
	}
	for _, s := range r.tables {
		err := db.bg.writeSealed(s, func(result compact.Result) error {
			return db.applyEdit(&manifest.Edit{Added: result.Added})
		})
		if err != nil {
			return err
		}
		s.table.Unref()
	}
	r.tables = nil
	edit := &manifest.Edit{}
	edit.SetLogNum(db.wal.num)
	edit.SetPrevLogNum(0)
	if err := db.applyEdit(edit); err != nil {
		return err
	}
	db.adopt(nil, db.wal.num)
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

// setAside keeps a copy of damaged logs as *.lost before they become obsolete.
func (db *DB) setAside(names []string) error {
	for _, name := range names {
		if err := db.copyFile(name, name+".lost"); err != nil {
			return fmt.Errorf("setting %s aside: %w", name, err)
		}
		db.recovery.SetAside = append(db.recovery.SetAside, name+".lost")
	}
	if len(names) == 0 {
		return nil
	}
	return db.opts.FS.SyncDir(db.dir)
}

// copyFile copies a file of the directory durably, but for its name. A copy
// that an interrupted recovery left is made anew.
func (db *DB) copyFile(from, to string) error {
	fsys := db.opts.FS
	in, err := fsys.Open(filepath.Join(db.dir, from))
	if err != nil {
		return err
	}
	defer in.Close()
	path := filepath.Join(db.dir, to)
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := fsys.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, io.NewSectionReader(in, 0, in.Size())); err != nil {
		return err
	}
	return out.Sync()
}

// removeObsolete deletes what an earlier run left behind: files that are ours
// by name and in no version. Names that are not ours stay.
func (db *DB) removeObsolete() error {
	names, err := db.opts.FS.List(db.dir)
	if err != nil {
		return err
	}
	live := map[uint64]struct{}{}
	db.manifest.LiveFiles(live)
	for _, name := range names {
		t, num := base.ParseFileName(name)
		obsolete := false
		switch t {
		case base.FileLog:
			obsolete = num < db.wal.num
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
