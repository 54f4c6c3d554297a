package lsm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/repair"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// Flush writes the memtables of the keyspace into tables and returns when they are durable. It
// fails as a write does, or with the error of the flush, which is tried again in the background.
func (k *keyspace) Flush() error { return k.space.Flush() }

// CompactRange flushes the memtable, merges everything from start up to, not including, limit into
// as few tables as possible, and drops the entries that no read can see any more. In LevelDB's
// format, which does not record the tables that have such entries, a table of an earlier opening is
// left as it is unless others are merged into it. A nil bound means no bound: (nil, nil) is all.
//
// It goes in steps: automatic compactions run beside and between them, and a writer that waits for
// level 0 ends a step that is in the way. It works although automatic compaction is paused.
//
// A start behind limit is ErrInvalidArgument. Close ends it with ErrClosed; otherwise it fails with
// the error of the flush or compaction. A failure loses nothing.
func (k *keyspace) CompactRange(start, limit []byte) error {
	return k.CompactRangeContext(context.Background(), start, limit)
}

// CompactRangeContext is CompactRange that gives up, with the context's error
// and nothing lost, when ctx is done.
func (k *keyspace) CompactRangeContext(ctx context.Context, start, limit []byte) error {
	if ctx == nil {
		return base.Invalidf("CompactRangeContext needs a context")
	}
	return k.space.CompactRange(ctx, start, limit)
}

// Verify reads every table of the database whole, from the disk and past the cache, and checks
// sizes, checksums, the structure of blocks, the order of keys and the numbers of entries; the
// native format has a checksum of each whole file, too. It runs beside writes and compactions, on
// the tables of its beginning. progress, unless nil, is told how many bytes of tables were read, of
// how many; a panic in it is the error. Logs and the MANIFEST are checked by Open.
//
// Damage is ErrCorruption; nil means none. The error joins the first failure of each table that is
// damaged or cannot be read: errors.As with *CorruptionError finds the first damage. Verify ends
// with ctx's error when ctx is done, with ErrClosed by Close, and with ErrInvalidArgument if ctx is
// nil. It changes nothing, and damage that it finds does not stop the database.
func (db *DB) Verify(ctx context.Context, progress func(read, of uint64)) error {
	if ctx == nil {
		return base.Invalidf("Verify needs a context")
	}
	return db.engine.Verify(ctx, progress)
}

// PauseCompaction stops automatic compaction, running ones included, and returns when none runs.
// Flushes go on, and writes do not wait for level 0. Each call needs a ResumeCompaction.
func (db *DB) PauseCompaction() { db.engine.Parts().Jobs.Pause() }

// ResumeCompaction undoes one PauseCompaction, or Options.DisableCompaction.
func (db *DB) ResumeCompaction() { db.engine.ResumeCompaction() }

// Resume tries failed background work again at once instead of at the end of its back-off, for
// instance after disk space was freed. If the database is read-only Resume returns the cause; only
// Close and Open make it writable again.
func (db *DB) Resume() error { return db.engine.Resume() }

// Destroy deletes the database in dir: the files that its MANIFEST lists or that, by their
// contents, Loam or LevelDB wrote, and the directory when it is empty then; where dir is a link to
// it, both stay. Where there is no database it deletes nothing but LOCK and an empty directory.
//
// It fails with ErrLocked if the database is open, and with the file system's error where a file
// cannot be removed. It fails with ErrNotADatabase, and removes nothing, if the directory is
// another engine's, or if a file has a database's name and contents that neither Loam nor LevelDB
// wrote.
func Destroy(dir string, o *Options) error {
	opts, err := o.resolve()
	if err != nil {
		return err
	}
	path, busy := "", error(nil)
	err = store.InDir(opts.FS, dir, owner.Check, func(d *vfs.Dir) (err error) {
		path = d.Path
		busy, err = repair.Destroy(d, d.Path)
		return err
	})
	if err == nil && busy != nil && !errors.Is(busy, ErrDirectoryChanged) {
		err = base.Protect(func() error { // some systems remove no open file
			return vfs.RemoveIfThere(opts.FS, filepath.Join(path, base.LockName))
		})
	}
	if errors.Is(err, ErrDoesNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroying %s: %w", dir, err)
	}
	_ = base.Protect(func() error {
		info, err := opts.FS.Stat(path)
		if err != nil || !info.IsDir() { // a link to the directory, which stays then
			return err
		}
		return opts.FS.Remove(path) // fails when something else is in it
	})
	return nil
}
