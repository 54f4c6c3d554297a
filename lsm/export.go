package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/engine"
)

// exportStep is how many bytes of keys and values go into one batch of an export.
const exportStep = 256 << 10

// Export writes what the database in dir holds into a new database in to, in a format
// that may be another one: the newest entry of each key, of all keyspaces. dir is opened as with ReadOnly
// and stays as it is. Export reads and writes everything once; progress, unless nil, is
// told after each quarter of a MiB how many bytes of keys and values were written, and how
// many bytes the tables of dir have. It ends with ctx's error when ctx is done.
//
// It fails with ErrExists if there is something in to, with ErrInvalidArgument, before it
// writes anything, if there are entries of kinds or, in LevelDB's format, keyspaces that
// the format does not have, and as Open does. Nothing is left of an export that failed.
// It is written in the directory to + ".export", which is renamed at the end: after a
// crash in between, Export fails with ErrExists until that is deleted, as by Destroy. to may
// not lie in dir.
//
// o is as for Open: how dir is opened and the tables of to are written.
func Export(ctx context.Context, dir, to string, format Format, o *Options, progress func(written, of uint64)) error {
	src := Options{}
	if o != nil {
		src = *o
	}
	src.DefaultTTL = 0 // values keep the time that they have
	dst := src
	src.ReadOnly, src.ErrorIfExists = true, false
	dst.Format, dst.ReadOnly, dst.ErrorIfMissing, dst.ErrorIfExists, dst.DisableCompaction = format, false, false, true, true
	from, err := Open(dir, &src)
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	if progress == nil {
		progress = func(uint64, uint64) {}
	}
	x := export{ctx: ctx, from: from, to: to, temp: to + ".export", opts: &dst, progress: progress}
	err = engine.Protect(x.run)
	if err = errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("exporting %s to %s: %w", dir, to, err)
	}
	return nil
}

type export struct {
	ctx      context.Context
	from     *DB
	to, temp string
	opts     *Options // of the new database
	progress func(written, of uint64)

	batch       *Batch
	written, of uint64
}

func (x *export) run() (err error) {
	resolved, err := x.opts.resolve()
	if err != nil {
		return err
	}
	fsys := resolved.FS
	to := x.to
	if abs, err := filepath.Abs(to); err == nil && filepath.IsAbs(x.from.engine.Dir) {
		to = abs
	}
	if rel, err := filepath.Rel(x.from.engine.Dir, to); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%w: %s lies in the database", ErrInvalidArgument, x.to)
	}
	for _, dir := range []string{x.to, x.temp} {
		if err := engine.MakeWay(fsys, dir); err != nil {
			return err
		}
	}
	if x.of, err = x.from.engine.CheckExport(resolved.Format.dir()); err != nil {
		return err
	}
	done := false
	defer func() { // also when a callback panics
		if !done {
			err = errors.Join(err, Destroy(x.temp, &Options{FS: x.opts.FS}))
		}
	}()
	if err := x.write(); err != nil {
		return err
	}
	if err := fsys.Rename(x.temp, x.to); err != nil {
		return err
	}
	done = true
	return fsys.SyncDir(filepath.Dir(x.to))
}

// write makes the new database.
func (x *export) write() error {
	db, err := Open(x.temp, x.opts)
	if err != nil {
		return err
	}
	return errors.Join(engine.Protect(func() error { return x.copyTo(db) }), db.Close())
}

// copyTo writes all entries into tables of db.
func (x *export) copyTo(db *DB) error {
	for _, name := range x.from.Keyspaces() {
		from, err := x.from.Keyspace(name, nil)
		if err != nil {
			return err
		}
		o := &KeyspaceOptions{Comparer: from.Comparer()}
		if db.engine.Native() {
			o.MergeOperator = from.space.Tree.Merge()
		}
		to, err := db.Keyspace(name, o)
		if err != nil {
			return err
		}
		if err := x.copySpace(from, to); err != nil {
			return fmt.Errorf("keyspace %q: %w", name, err)
		}
	}
	return nil
}

func (x *export) copySpace(from, to *Keyspace) error {
	x.batch = to.NewBatch()
	it := from.Iter(&IterOptions{NoFillCache: true})
	defer it.Close()
	for ok := it.First(); ok; {
		if deadline := it.tree.Deadline(); deadline > 0 {
			x.batch.b.Add(to.space, base.KindSetExpiring, it.Key(), base.AppendDeadline(bytes.Clone(it.Value()), deadline))
		} else {
			x.batch.Put(it.Key(), it.Value())
		}
		if ok = it.Next(); !ok || x.batch.Size() >= exportStep {
			if err := x.commit(to); err != nil {
				return err
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return to.Flush()
}

func (x *export) commit(to *Keyspace) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if err := to.Write(x.batch, NoSync); err != nil {
		return err
	}
	x.written += uint64(x.batch.Size())
	x.batch.Clear()
	x.progress(x.written, x.of)
	return nil
}
