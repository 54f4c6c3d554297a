package syscalls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

func TestMain(m *testing.M) {
	is, err := Child(func(args []string) error {
		l := life{dir: args[1]}
		if err := l.opts.Set("format", args[0]); err != nil {
			return err
		}
		if len(args) == 2 {
			return l.live()
		}
		e, err := newEndured(l, args[2], args[3])
		if err != nil {
			return err
		}
		return e.live()
	})
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case !is:
		os.Exit(m.Run())
	}
}

// life is one database with everything around it.
type life struct {
	dir    string
	opts   lsm.Options
	db     *lsm.DB
	writes int
}

func (l *life) path(name string) string { return filepath.Join(l.dir, name) }

// live makes each kind of system calls that a database makes. No error is expected.
func (l *life) live() error {
	l.small()
	for _, step := range []func() error{l.open, l.write, l.compact, l.copies, l.ingest, l.follow,
		l.write, l.close, l.open, l.write, l.close, l.export, l.repair, l.open, l.read, l.close} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// small makes many files, with each kind of calls.
func (l *life) small() {
	l.opts.WriteBufferSize, l.opts.MaxFileSize = 64<<10, 64<<10
	l.opts.CompactionDirectIO = true
}

func (l *life) open() (err error) {
	l.db, err = lsm.Open(l.path("db"), &l.opts)
	return err
}

func (l *life) close() error { return l.db.Close() }

const keys = 400

func key(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }

// value is that of a key in one round of writes.
func (l *life) value(i, round int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d %d,", i, round), 30)
}

// write writes each key, some synced. Between them are enough writes for a mapped log.
func (l *life) write() error {
	l.writes++
	for i := range keys {
		mode := lsm.NoSync
		if i < 10 {
			mode = lsm.Sync
		}
		if err := l.db.Put(key(i), l.value(i, l.writes), mode); err != nil {
			return err
		}
	}
	return l.read()
}

func (l *life) read() error {
	for i := range keys {
		v, err := l.db.Get(key(i), nil)
		if err != nil || !bytes.Equal(v, l.value(i, l.writes)) {
			return fmt.Errorf("%s is %.20q: %w", key(i), v, err)
		}
	}
	return nil
}

func (l *life) compact() error {
	return errors.Join(l.db.Flush(), l.db.CompactRange(nil, nil), l.read(),
		l.db.Verify(context.Background(), nil))
}

func (l *life) copies() error {
	ctx := context.Background()
	f, err := backup.Open(l.path("backups"), nil)
	if err != nil {
		return err
	}
	info, err := f.Create(ctx, l.db, nil)
	if err != nil {
		return err
	}
	_, err = dump.Write(ctx, l.db, io.Discard, nil)
	return errors.Join(err, f.Restore(ctx, info.ID, l.path("restored"), nil), f.Close(),
		l.db.Checkpoint(ctx, l.path("checkpoint")))
}

func (l *life) ingest() error {
	w, err := lsm.NewTableWriter(l.path("table"), &l.opts)
	if err != nil {
		return err
	}
	return errors.Join(w.Put([]byte("a"), nil), w.Finish(), w.Close(),
		l.db.Ingest(context.Background(), nil, l.path("table")))
}

func (l *life) follow() error {
	f, err := lsm.OpenFollower(l.path("db"), &l.opts)
	if err != nil {
		return err
	}
	_, err = f.Get(key(0), nil)
	return errors.Join(err, f.CatchUp(context.Background()), f.Close())
}

func (l *life) export() error {
	return lsm.Export(context.Background(), l.path("db"), l.path("export"), lsm.FormatLevelDB,
		&l.opts, nil)
}

func (l *life) repair() error {
	_, err := lsm.Repair(l.path("db"), &l.opts)
	return err
}
