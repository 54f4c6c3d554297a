package loam

import (
	"context"
	"errors"
	"os"

	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// Checkpoint makes dir a database of its own.
func (d *database) Checkpoint(dir string) error {
	return d.db.Checkpoint(context.Background(), dir)
}

// Backup opens the folder for this backup alone.
func (d *database) Backup(dir string) error {
	f, err := backup.Open(dir, nil)
	if err != nil {
		return err
	}
	_, err = f.Create(context.Background(), d.db, nil)
	return errors.Join(err, f.Close())
}

// RestoreBackup opens the folder for reading.
func (d *database) RestoreBackup(dir, to string) error {
	f, err := backup.Open(dir, &backup.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	list, err := f.List()
	if err == nil {
		err = f.Restore(context.Background(), list[len(list)-1].ID, to, nil)
	}
	return errors.Join(err, f.Close())
}

// Dump uses the compression that is the default.
func (d *database) Dump(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = dump.Write(context.Background(), d.db, f, nil)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// LoadDump makes a database with the options of this one.
func (d *database) LoadDump(file, to string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	o := d.options
	o.ErrorIfMissing, o.ErrorIfExists = false, true
	db, err := lsm.Open(to, &o)
	if err != nil {
		return err
	}
	_, err = dump.Load(context.Background(), db, f, nil)
	return errors.Join(err, db.Close())
}

// Changes is a feed from the first batch on that a log has.
func (d *database) Changes() (store.Changes, error) {
	c, err := d.db.Changes(0, nil)
	if err != nil {
		return nil, err
	}
	return changes{c}, nil
}

type changes struct{ c *lsm.Changes }

// Next looks at each operation.
func (f changes) Next(limit int) (batches, operations, bytes int64, err error) {
	for batches < int64(limit) {
		change, ok, err := f.c.TryNext()
		if err != nil || !ok {
			return batches, operations, bytes, err
		}
		batches++
		for op := range change.Operations() {
			operations++
			bytes += int64(len(op.Key) + len(op.Value))
		}
	}
	return batches, operations, bytes, nil
}

func (f changes) Close() error { return f.c.Close() }

// NewTable begins a table of the database's format, with its options.
func (d *database) NewTable(file string) (store.Sink, error) {
	w, err := lsm.NewTableWriter(file, &d.options)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Ingest takes the files away.
func (d *database) Ingest(files []string) error {
	return d.db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, files...)
}

// BulkLoad has the memory that is the default.
func (d *database) BulkLoad() (store.Sink, error) {
	l, err := d.db.BulkLoader(nil)
	if err != nil {
		return nil, err
	}
	return load{l}, nil
}

type load struct{ *lsm.BulkLoader }

func (l load) Finish() error { return l.BulkLoader.Finish(context.Background()) }

// OpenFollower needs no directory of its own.
func (d Driver) OpenFollower(dir, _ string, c store.Config) (store.Follower, error) {
	o, err := d.options(c)
	if err != nil {
		return nil, err
	}
	f, err := lsm.OpenFollower(dir, o)
	if err != nil {
		return nil, err
	}
	return follower{f}, nil
}

type follower struct{ *lsm.Follower }

func (f follower) CatchUp() error { return f.Follower.CatchUp(context.Background()) }

func (f follower) Get(key, dst []byte) (value []byte, found bool, err error) {
	value, err = f.Follower.Get(key, dst)
	return answer(value, dst, err)
}

// OpenShared gives the databases Resources, which they hold until they are closed.
func (d Driver) OpenShared(dirs []string, memory int64,
	c store.Config) (all []store.Store, err error) {
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: memory})
	defer res.Close()
	for _, dir := range dirs {
		o, err := d.options(c)
		if err == nil {
			o.Resources = res
			var s store.Store
			if s, err = open(dir, o, c); err == nil {
				all = append(all, s)
			}
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
