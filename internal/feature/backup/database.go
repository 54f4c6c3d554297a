package backup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/store"
)

// Copies makes the copies of a database, and counts them. The zero Copies has made none.
type Copies struct {
	mu                   sync.Mutex // a leaf
	checkpoints, backups Totals
}

// Totals counts the checkpoints of a database, or its backups.
type Totals struct {
	Count, Failed int64
	Duration      time.Duration // sum, failed ones included; so are the next, see Stats

	TablesLinked, TablesCopied, BytesCopied uint64
}

// note counts a copy in sum.
func (c *Copies) note(sum *Totals, st Stats, begun time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum.Count++
	if err != nil {
		sum.Failed++
	}
	sum.Duration += time.Since(begun)
	sum.TablesLinked += st.TablesLinked
	sum.TablesCopied += st.TablesCopied
	sum.BytesCopied += st.BytesCopied
}

// Stats counts the checkpoints and the backups so far.
func (c *Copies) Stats() (checkpoints, backups Totals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkpoints, c.backups
}

// Checkpoint copies the database into dir; see lsm.DB.Checkpoint.
func (c *Copies) Checkpoint(ctx context.Context, db store.Host, dir string) error {
	return c.copy(db, &c.checkpoints, func(src *Source, ended func() error) (Stats, error) {
		return src.Checkpoint(dir, func() error {
			if err := ended(); err != nil {
				return err
			}
			return ctx.Err()
		})
	})
}

// Backup makes a backup of the database in a folder; see package lsm/backup.
func (c *Copies) Backup(db store.Host, f *Folder, r *Run) (info Info, err error) {
	err = c.copy(db, &c.backups, func(src *Source, ended func() error) (st Stats, err error) {
		info, st, err = f.Create(src, r, ended)
		return st, err
	})
	return info, err
}

// copy runs f, which copies the database, and counts it in sum. ended tells f that the database is
// being closed.
func (c *Copies) copy(
	db store.Host, sum *Totals, f func(src *Source, ended func() error) (Stats, error),
) error {
	return db.WhileOpen(func(ended func() error) (err error) {
		if db.Place().Follows {
			return fmt.Errorf(
				"%w: a follower cannot be copied, as its files are another process's: copy the "+
					"database there",
				base.ErrReadOnly)
		}
		if err := db.Health().Failed(); err != nil {
			return err
		}
		begun := time.Now()
		var st Stats
		defer func() { c.note(sum, st, begun, err) }()
		defer db.Health().CatchPanic(&err)
		st, err = f(sourceOf(db), ended)
		return err
	})
}

// sourceOf is the database as one that is copied.
func sourceOf(db store.Host) *Source {
	place, logs := db.Place(), db.Logs()
	return &Source{
		FS: place.FS, Keys: seal.KeysOf(place.FS), Dir: place.Dir, Format: place.Format,
		Comparer:  place.Comparer,
		Comparers: place.Comparers, ReadOnly: place.ReadOnly,
		Files: db.Files(), Clock: db.Sequences().Clock.Stored, Warn: db.Health().Warn,
		Logs: logs.Parts, SyncFull: logs.SyncFull, HoldLogs: logs.Hold,
		KeepKeyspaces: db.Keyspaces().Keep,
	}
}
