package ingest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/tree"
)

// TableWriter writes a table outside of a database, which Ingest takes in. It is used by one
// goroutine at a time.
type TableWriter struct {
	fs     *fileid.Made
	path   string
	cmp    *base.Comparer
	native bool
	clock  tree.Clock

	w     sstable.Writer // nil once ended
	dels  []rangedel.Tombstone
	any   bool
	last  []byte
	value []byte // scratch
	err   error  // why the table cannot be finished
}

// NewTableWriter creates the file of a table. wall is the clock of PutTTL, nil for the system's.
func NewTableWriter(fsys vfs.FS, path string, o sstable.WriterOptions,
	wall func() time.Time) (*TableWriter, error) {
	path, err := vfs.Absolute(fsys, path)
	if err != nil {
		return nil, err
	}
	t := &TableWriter{fs: fileid.Track(fsys), path: path, cmp: o.Comparer,
		native: o.Format == base.Native}
	t.clock.Init(wall, 0)
	err = base.Protect(func() error {
		f, err := t.fs.Create(path)
		if err == nil {
			t.w = files.NewTableWriter(f, o)
		}
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s is there: choose a name that is free", base.ErrExists, path)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Put adds a value. Keys ascend, and come once each: another key is ErrInvalidArgument, and the
// table stays as it was. The other failures end the table.
func (t *TableWriter) Put(key, value []byte) error { return t.add(key, base.KindSet, value) }

// Delete adds a deletion: what the database has of the key when the table is ingested is deleted.
// It fails as Put does.
func (t *TableWriter) Delete(key []byte) error { return t.add(key, base.KindDelete, nil) }

// PutTTL adds a value that lives as long from now on, rounded up to seconds. It fails as Put does,
// with ErrInvalidArgument if ttl is not positive, and with ErrNeedsNative in LevelDB's format.
func (t *TableWriter) PutTTL(key, value []byte, ttl time.Duration) (err error) {
	if !t.native {
		return base.NeedsNative("a time to live")
	}
	seconds, err := store.Seconds(ttl)
	if err != nil {
		return err
	}
	var deadline uint64
	err = base.Protect(func() (err error) {
		deadline, err = t.clock.Deadline(seconds)
		return err
	})
	if err != nil {
		return err
	}
	t.value = base.AppendDeadline(append(t.value[:0], value...), deadline)
	return t.add(key, base.KindSetExpiring, t.value)
}

// DeleteRange adds the deletion of all keys from start up to, not including, limit that the
// database has when the table is ingested; the entries of this ingest stay. Ranges come in any
// order, also between entries. It fails with ErrInvalidArgument if the range ends before it starts,
// and with ErrNeedsNative in LevelDB's format.
func (t *TableWriter) DeleteRange(start, limit []byte) (err error) {
	if err := t.usable(); err != nil {
		return err
	}
	if !t.native {
		return base.NeedsNative("a range delete")
	}
	return t.protect(func() error {
		if c := t.cmp.Cmp(start, limit); c > 0 {
			return base.Invalidf("range ends before it starts")
		} else if c < 0 {
			t.dels = append(t.dels, rangedel.Tombstone{Start: start, Limit: limit}.Clone())
		}
		return nil
	})
}

func (t *TableWriter) usable() error {
	if t.w == nil {
		return fmt.Errorf("%w: the table was finished or given up", base.ErrClosed)
	}
	return t.err
}

// protect makes a panic, of a comparer or a file system, the failure that ends the table.
func (t *TableWriter) protect(f func() error) error {
	err := base.Protect(f)
	var p *base.Panic
	if errors.As(err, &p) {
		t.err = err
	}
	return err
}

func (t *TableWriter) add(key []byte, kind base.Kind, value []byte) error {
	if err := t.usable(); err != nil {
		return err
	}
	if len(key) > batchrepr.MaxLen/2 || len(value) > batchrepr.MaxLen-len(key)-64 {
		return fmt.Errorf("%w: a key and value of %d bytes", base.ErrTooLarge, len(key)+len(value))
	}
	return t.protect(func() error {
		if t.any && t.cmp.Cmp(t.last, key) >= 0 {
			return base.Invalidf("key %q is not behind the one before it, %q", key, t.last)
		}
		if err := t.w.Add(key, base.MakeTrailer(0, kind), base.CodecRaw, value); err != nil {
			t.err = err
			return err
		}
		t.any, t.last = true, append(t.last[:0], key...)
		return nil
	})
}

// EstimatedSize is about how many bytes the file would have if the table were finished now.
func (t *TableWriter) EstimatedSize() uint64 {
	if t.w == nil {
		return 0
	}
	return t.w.EstimatedSize()
}

// Finish writes the rest and makes the table durable, under its name. A table without any entry is
// ErrInvalidArgument. If it fails the file is removed, as by Close.
func (t *TableWriter) Finish() error {
	err := t.usable()
	if t.w == nil {
		return err
	}
	if err == nil && !t.any && len(t.dels) == 0 {
		err = base.Invalidf("a table needs an entry")
	}
	if err == nil {
		err = base.Protect(t.finish)
	}
	if err != nil {
		return errors.Join(err, t.Close())
	}
	t.w = nil
	return nil
}

func (t *TableWriter) finish() error {
	if err := rangedel.NewestOf(t.cmp, t.dels).AddTo(t.w.Add); err != nil {
		return err
	}
	if _, err := t.w.Finish(); err != nil {
		return err
	}
	if err := t.w.Sync(); err != nil {
		return err
	}
	if err := t.w.Close(); err != nil {
		return err
	}
	if err := t.fs.SyncDir(filepath.Dir(t.path)); err != nil {
		return err
	}
	return t.fs.Check(t.fs.FS, t.path) // another program may have taken it away
}

// Close gives up a table that was not finished and removes its file. After Finish, and a second
// time, it does nothing.
func (t *TableWriter) Close() error {
	if t.w == nil {
		return nil
	}
	w := t.w
	t.w = nil
	_ = base.Protect(w.Close) // the file goes
	return base.Protect(func() error { return t.fs.Remove(t.path) })
}
