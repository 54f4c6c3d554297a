package strangers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// operation is a long operation that a stranger interrupts.
type operation struct {
	name   string
	closed bool // the database is not open
	legacy bool // it is in LevelDB's format
	folder bool // the folder of backups is open
	run    func(ctx context.Context, w *world) error
	copies string // the directory of the copy that a success leaves; "": none
}

var operations = []operation{
	{name: "checkpoint", copies: "copy", run: func(ctx context.Context, w *world) error {
		return w.db.Checkpoint(ctx, w.at("copy"))
	}},
	{name: "backup", folder: true, run: func(ctx context.Context, w *world) error {
		_, err := w.folder.Create(ctx, w.db, nil)
		return err
	}},
	{name: "verify", folder: true, run: func(ctx context.Context, w *world) error {
		return w.folder.Verify(ctx, 1, nil)
	}},
	{name: "restore", folder: true, copies: "copy", run: func(ctx context.Context, w *world) error {
		return w.folder.Restore(ctx, 1, w.at("copy"), nil)
	}},
	{name: "dump", run: func(_ context.Context, w *world) error {
		return writeDump(w.db, w.at("outside", "another"))
	}},
	{name: "load", copies: "copy", run: func(ctx context.Context, w *world) error {
		r, err := os.Open(w.at("outside", "dump"))
		if err != nil {
			return err
		}
		defer r.Close()
		o := w.options()
		db, err := lsm.Open(w.at("copy"), o)
		if err != nil {
			return err
		}
		_, err = dump.Load(ctx, db, r, nil)
		return errors.Join(err, db.Close())
	}},
	{name: "ingest", run: func(ctx context.Context, w *world) error {
		return w.db.Ingest(ctx, nil, w.at("outside", "table"))
	}},
	{name: "table", run: func(_ context.Context, w *world) error {
		return writeTable(w.at("outside", "another"), w.options())
	}},
	{name: "bulkload", run: func(ctx context.Context, w *world) error {
		return w.db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			for i := range 300 {
				if !yield([]byte("load"+key(i)), []byte(value(i))) {
					return
				}
			}
		}, &lsm.BulkLoadOptions{Memory: 64 << 10})
	}},
	{name: "export", closed: true, copies: "copy", run: func(ctx context.Context, w *world) error {
		o := w.options()
		return lsm.Export(ctx, w.at("db"), w.at("copy"), lsm.FormatNative, o, nil)
	}},
	{name: "upgrade", closed: true, legacy: true, run: func(_ context.Context, w *world) error {
		return lsm.Upgrade(w.at("db"), w.options())
	}},
	{name: "repair", closed: true, run: func(_ context.Context, w *world) error {
		if err := os.RemoveAll(w.at("db", "CURRENT")); err != nil {
			return err
		}
		_, err := lsm.Repair(w.at("db"), w.options())
		return err
	}},
	{name: "follower", run: func(ctx context.Context, w *world) error {
		f, err := lsm.OpenFollower(w.at("db"), &lsm.Options{FS: w.fs})
		if err != nil {
			return err
		}
		err = errors.Join(w.write(), f.CatchUp(ctx))
		if err == nil {
			_, err = contents(f)
		}
		return errors.Join(err, f.Close())
	}},
	{name: "compaction", run: func(_ context.Context, w *world) error {
		return w.db.CompactRange(nil, nil)
	}},
}

func writeDump(db *lsm.DB, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = dump.Write(context.Background(), db, f, nil)
	return errors.Join(err, f.Close())
}

// added is want with the entries that a success of an operation adds to the database.
func (o *operation) added(want map[string]string) map[string]string {
	all := maps.Clone(want)
	switch o.name {
	case "ingest":
		for i := range 50 {
			all[fmt.Sprintf("table%05d", i)] = value(i)
		}
	case "bulkload":
		for i := range 300 {
			all["load"+key(i)] = value(i)
		}
	}
	return all
}
