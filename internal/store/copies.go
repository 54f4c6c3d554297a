package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/store/wal"
)

// copies counts the copies of a database, and ends those under way when it is closed.
type copies struct {
	mu     sync.Mutex // a leaf
	closed atomic.Bool
	ended  sync.WaitGroup // those under way; Add is called with mu held

	statsMu              sync.Mutex // a leaf
	checkpoints, backups CopyStats
	ingests              IngestStats
}

// CopyStats counts the checkpoints of a database, or its backups.
type CopyStats struct {
	Count, Failed int64
	Duration      time.Duration // sum, failed ones included; so are the next, see backup.Stats

	TablesLinked, TablesCopied, BytesCopied uint64
}

// begin counts a copy as under way until ended.Done.
func (c *copies) begin() error {
	if err := base.NotWithin(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return base.ErrDatabaseClosed
	}
	c.ended.Add(1)
	return nil
}

// close refuses further copies, and returns when those under way have ended.
func (c *copies) close() {
	c.mu.Lock()
	c.closed.Store(true)
	c.mu.Unlock()
	c.ended.Wait()
}

// WhileOpen runs f, whose end Close waits for. After Close has begun it fails with base.ErrClosed.
func (db *DB) WhileOpen(f func() error) error {
	if err := db.copies.begin(); err != nil {
		return err
	}
	defer db.copies.ended.Done()
	return f()
}

// note counts a copy in sum.
func (c *copies) note(sum *CopyStats, st backup.Stats, begun time.Time, err error) {
	c.statsMu.Lock()
	defer c.statsMu.Unlock()
	sum.Count++
	if err != nil {
		sum.Failed++
	}
	sum.Duration += time.Since(begun)
	sum.TablesLinked += st.TablesLinked
	sum.TablesCopied += st.TablesCopied
	sum.BytesCopied += st.BytesCopied
}

// CopyStats counts the checkpoints and the backups so far.
func (db *DB) CopyStats() (checkpoints, backups CopyStats) {
	db.copies.statsMu.Lock()
	defer db.copies.statsMu.Unlock()
	return db.copies.checkpoints, db.copies.backups
}

// Checkpoint copies the database into dir; see lsm.DB.Checkpoint.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	return db.copy(&db.copies.checkpoints,
		func(src *backup.Source, ended func() error) (backup.Stats, error) {
			return src.Checkpoint(dir, func() error {
				if err := ended(); err != nil {
					return err
				}
				return ctx.Err()
			})
		})
}

// Backup makes a backup of the database in a folder; see package lsm/backup.
func (db *DB) Backup(f *backup.Folder, r *backup.Run) (info backup.Info, err error) {
	err = db.copy(&db.copies.backups, func(src *backup.Source, ended func() error) (st backup.Stats,
		err error) {
		info, st, err = f.Create(src, r, ended)
		return st, err
	})
	return info, err
}

// copy runs f, which copies the database, and counts it in sum. ended tells f that the database
// is being closed.
func (db *DB) copy(sum *CopyStats, f func(src *backup.Source, ended func() error) (backup.Stats,
	error)) (err error) {
	if err := db.copies.begin(); err != nil {
		return err
	}
	defer db.copies.ended.Done()
	if db.Follower != nil {
		return fmt.Errorf("%w: a follower cannot be copied, as its files are another process's: "+
			"copy the database there", base.ErrReadOnly)
	}
	if err := db.Health.Failed(); err != nil {
		return err
	}
	begun := time.Now()
	var st backup.Stats
	defer func() { db.copies.note(sum, st, begun, err) }()
	defer db.Health.CatchPanic(&err)
	st, err = f(db.source(), func() error {
		if db.copies.closed.Load() {
			return base.ErrDatabaseClosed
		}
		return nil
	})
	return err
}

// source is the database as one that is copied.
func (db *DB) source() *backup.Source {
	s := &backup.Source{
		FS: db.Opts.FS, Dir: db.Dir, Format: db.Opts.Format, Comparer: db.Opts.Comparer,
		Comparers: db.Opts.Comparers, Files: db.Shared.Files, Logs: db.logs,
		SyncFull: db.WAL.SyncFull, ReadOnly: db.Opts.ReadOnly, Clock: db.Shared.Seqs.Clock.Stored,
		Warn: db.Health.Warn, KeepKeyspaces: db.KeepKeyspaces, HoldLogs: db.WAL.Hold,
	}
	if db.Opts.ReadOnly {
		s.Logs, s.SyncFull, s.HoldLogs = db.logFiles, func(uint64) bool {
			return false
		}, func() func() { return func() {} }
	}
	return s
}

// maxCopiedLog is the size in bytes above which the current log is not copied for a checkpoint: the
// next log begins, and the full one is linked. So a checkpoint reads and writes no memtable's worth
// of log.
func (db *DB) maxCopiedLog() int64 { return min(1<<20, db.Opts.Jobs.WriteBuffer/8) }

// logs lists the logs and what they have, and begins to sync the full ones. It waits for a
// commit under way.
func (db *DB) logs() (parts []wal.Part, err error) {
	err = db.Pipeline.Exclusive(func() error {
		if err := db.Health.Writable(); err != nil {
			return err
		}
		if db.WAL.Size() > db.maxCopiedLog() {
			// After a shortage the log goes on, and is copied.
			if _, err := db.WAL.Rotate(db.Shared.Seqs.Visible()); err != nil &&
				!base.IsShortage(err) {
				return err
			}
		}
		db.WAL.BeginSync(db.WAL.Num())
		parts = db.WAL.Parts()
		return nil
	})
	return parts, err
}

// logFiles lists the logs of a database that is open for reading, which do not change.
func (db *DB) logFiles() (parts []wal.Part, err error) {
	r := wal.Replay{FS: db.Opts.FS, Dir: db.Dir, Format: db.Opts.Format}
	nums, err := r.Needed(db.Manifest.Knows, db.Manifest.LogNum(), db.Manifest.PrevLogNum())
	for _, num := range nums {
		info, serr :=
			db.Opts.FS.Stat(filepath.Join(db.Dir, db.Opts.Format.FileName(base.FileLog, num)))
		if serr != nil {
			return nil, serr
		}
		parts = append(parts, wal.Part{Num: num, Size: info.Size()})
	}
	return parts, err
}
