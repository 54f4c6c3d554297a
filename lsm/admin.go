package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/feature/repair"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// Flush writes the memtable, and those waiting, into tables and returns when
// they are durable. It fails as a write does, or with the error of the flush, which
// is tried again in the background. Of a keyspace, its memtables alone are written.
func (k *keyspace) Flush() error { return k.space.Flush() }

// CompactRange merges everything from start up to, not including, limit into as
// few tables as possible and drops entries that no read can see any more, as far as this
// opening of the database wrote them; nil is no bound. The memtable is flushed first.
// It goes in steps: automatic compactions run beside and between them, and a writer
// that waits for level 0 ends a step that is in the way. It works although automatic
// compaction is paused. A start behind limit is ErrInvalidArgument. Close ends it with
// ErrClosed; otherwise it fails with the error of the flush or compaction, nothing
// being lost.
func (k *keyspace) CompactRange(start, limit []byte) error {
	return k.CompactRangeContext(context.Background(), start, limit)
}

// CompactRangeContext is CompactRange that gives up, with the context's error
// and nothing lost, when ctx is done.
func (k *keyspace) CompactRangeContext(ctx context.Context, start, limit []byte) error {
	if ctx == nil {
		return fmt.Errorf("%w: CompactRangeContext needs a context", ErrInvalidArgument)
	}
	return k.space.CompactRange(ctx, start, limit)
}

// Verify reads every table of the database whole, from the disk and past the cache, and
// checks sizes, checksums, the structure of blocks, the order of keys and the numbers of
// entries. The native format has a checksum of each whole file, too. The tables are those of
// the moment: they stay while Verify runs, beside writes and compactions. It tells progress,
// unless nil, how many bytes of tables were read, of how many. Logs and the MANIFEST are
// checked by Open.
//
// Damage is ErrCorruption; nil means none. The error joins the first failure of each
// table that is damaged or cannot be read: errors.As with *CorruptionError finds the first damage,
// a file and an offset. Verify ends with ctx's error when ctx is done, with ErrClosed by Close,
// and with ErrInvalidArgument if ctx is nil. It changes nothing, and the database goes on.
func (db *DB) Verify(ctx context.Context, progress func(read, of uint64)) error {
	if ctx == nil {
		return fmt.Errorf("%w: Verify needs a context", ErrInvalidArgument)
	}
	return db.engine.Verify(ctx, progress)
}

// PauseCompaction stops automatic compaction, running ones included, and
// returns when none runs. Flushes go on, and writes do not wait for level 0. Each
// call needs a ResumeCompaction.
func (db *DB) PauseCompaction() { db.engine.Parts().Jobs.Pause() }

// ResumeCompaction undoes one PauseCompaction, or Options.DisableCompaction.
func (db *DB) ResumeCompaction() { db.engine.ResumeCompaction() }

// Resume tries failed background work again at once, for instance after disk
// space was freed, instead of at the end of its back-off. It returns why the
// database is read-only if it is: that ends only with Close and Open.
func (db *DB) Resume() error { return db.engine.Resume() }

// Destroy deletes the database in dir: the files that its MANIFEST lists or that Loam or
// LevelDB wrote by their contents, and the directory when nothing else is in it. It fails
// with ErrLocked if the database is open, with ErrNotADatabase, every file being left as it
// was, if the directory is another engine's, and with the file system's error where a file
// cannot be removed. Where there is none it does nothing. A file with a database's name and unknown
// contents stays, and Destroy returns ErrNotADatabase after it has removed all others.
func Destroy(dir string, o *Options) error {
	opts, err := o.resolve()
	if err != nil {
		return err
	}
	path := ""
	err = inDir(opts, dir, func(d *vfs.Dir) error {
		path = d.Path
		return repair.Destroy(d, d.Path)
	})
	if errors.Is(err, ErrDoesNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroying %s: %w", dir, err)
	}
	// Stays when something else is in it.
	_ = store.Protect(func() error { return opts.FS.Remove(path) })
	return nil
}
