package lsm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// longCalls are the long-running calls beside the writers of a database, each with its preparation.
var longCalls = []struct {
	name   string
	before func(fs vfs.FS) error
	call   func(db *lsm.DB, fs vfs.FS, try int) error
}{
	{"Flush", nil, func(db *lsm.DB, _ vfs.FS, _ int) error { return db.Flush() }},
	{"Compact", nil, func(db *lsm.DB, _ vfs.FS, _ int) error {
		return db.CompactRange(nil, nil)
	}},
	{"Ingest", func(fs vfs.FS) error {
		w, err := lsm.NewTableWriter("/table", &lsm.Options{FS: fs, Format: lsm.FormatNative})
		if err != nil {
			return err
		}
		return errors.Join(w.Put([]byte("k3"), []byte("ingested")), w.Finish())
	}, func(db *lsm.DB, _ vfs.FS, _ int) error {
		return db.Ingest(context.Background(), nil, "/table")
	}},
	{"Checkpoint", nil, func(db *lsm.DB, _ vfs.FS, try int) error {
		return db.Checkpoint(context.Background(), fmt.Sprintf("/copy%d", try))
	}},
	{"Backup", nil, func(db *lsm.DB, fs vfs.FS, try int) error {
		f, err := backup.Open(fmt.Sprintf("/folder%d", try), &backup.Options{FS: fs})
		if err != nil {
			return err
		}
		_, err = f.Create(context.Background(), db, nil)
		return errors.Join(err, f.Close())
	}},
	{"Dump", nil, func(db *lsm.DB, _ vfs.FS, _ int) error {
		_, err := dump.Write(context.Background(), db, new(bytes.Buffer), nil)
		return err
	}},
}

// endsWrites reports whether a failure of op may leave the database read-only: what the kernel has
// of a log or MANIFEST whose sync failed is not known, nor, but for a shortage, of one whose append
// failed, or whose name was to be durable.
func endsWrites(op vfs.Op, err error) bool {
	kind := fstest.TypeOf(op.Name)
	inLog := path.Dir(op.Name) == "/db" && (kind == base.FileLog || kind == base.FileManifest)
	switch op.Kind {
	case vfs.OpSync:
		return inLog
	case vfs.OpSyncDir:
		return op.Name == "/db" && err == syscall.EIO
	case vfs.OpAppend:
		return inLog && err == syscall.EIO
	}
	return false
}

// TestLongCallFaults: after a single failing call of the file system beneath a long call the
// database is writable, and the call succeeds when it is repeated; or it is read-only, for one of
// the reasons that the guarantees name, with the cause in the error. Nothing written is lost.
func TestLongCallFaults(t *testing.T) {
	for _, c := range longCalls {
		for _, fault := range []syscall.Errno{syscall.ENOSPC, syscall.EMFILE, syscall.EIO} {
			for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
				if c.name == "Ingest" && format == lsm.FormatLevelDB {
					continue // it refuses keys that have entries
				}
				t.Run(fmt.Sprintf("%s/%v/%v", c.name, fault, format), func(t *testing.T) {
					for at := int64(0); ; at += int64(testkit.Scale(2, 2, 1)) {
						if !longCallFault(t, c.before, c.call, fault, format, at) {
							break
						}
					}
				})
			}
		}
	}
}

// longCallFault runs a long call whose file-system call number at fails, and reports whether there
// was one.
func longCallFault(t *testing.T, before func(vfs.FS) error,
	call func(*lsm.DB, vfs.FS, int) error, fault syscall.Errno, format lsm.Format,
	at int64) bool {
	t.Helper()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("call %d: %s: %v", at, what, err)
		}
	}
	var armed atomic.Bool
	var failed atomic.Pointer[vfs.Op]
	fail := &fstest.FailAt{At: at, Outcome: vfs.Outcome{Err: fault}}
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if !armed.Load() || op.Kind == vfs.OpClose {
			return vfs.Outcome{}
		}
		out := fail.Hook(op)
		if out.Err != nil {
			failed.Store(&op)
		}
		return out
	})
	o := &lsm.Options{FS: fsys, Format: format, DisableCompaction: true}
	db, err := lsm.Open("/db", o)
	check("open", err)
	want := make(map[string]string)
	put := func(round int) error {
		for i := range 6 {
			key, value := fmt.Sprint("k", i), fmt.Sprint("v", round)
			if err := db.Put([]byte(key), []byte(value), lsm.NoSync); err != nil {
				return err
			}
			want[key] = value
		}
		return nil
	}
	for round := range 3 {
		check("put", put(round))
		if round < 2 {
			check("flush", db.Flush())
		}
	}
	if before != nil {
		check("before", before(mem))
	}
	armed.Store(true)
	first := call(db, fsys, 0)
	armed.Store(false)
	op := failed.Load()
	if op == nil {
		check("call", first)
		check("close", db.Close())
		return false
	}
	if first == nil && before != nil {
		want["k3"] = "ingested"
	}
	writable := put(9)
	switch {
	case writable == nil:
		check("resume", db.Resume())
		if err := call(db, fsys, 1); err != nil {
			t.Errorf("call %d, %v fails: %v; again: %v", at, op, first, err)
		} else if before != nil {
			want["k3"] = "ingested"
		}
	case !endsWrites(*op, fault):
		t.Errorf("call %d, %v fails: %v; the database is read-only: %v", at, op, first, writable)
	case !errors.Is(writable, lsm.ErrReadOnly) || !errors.Is(writable, fault):
		t.Errorf("call %d, %v fails: the cause is not in %v", at, op, writable)
	}
	_ = db.Close()
	db, err = lsm.Open("/db", o)
	check("open again", err)
	for key, value := range want {
		got, err := db.Get([]byte(key), nil)
		maybe := first != nil && key == "k3" && string(got) == "ingested"
		if string(got) != value && !maybe || err != nil {
			t.Errorf("call %d, %v fails: %s is %q, not %q, %v", at, path.Base(op.Name), key, got,
				value, err)
		}
	}
	check("close again", db.Close())
	return true
}
