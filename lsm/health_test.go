package lsm

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

func TestPanicInComparerEndsWrites(t *testing.T) {
	bad := false
	cmp := &Comparer{Name: "test.panics", EqualIsBytewise: false, Compare: func(a, b []byte) int {
		if bad {
			panic("comparer")
		}
		return bytes.Compare(a, b)
	}}
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: cmp})
	putKeys(t, db, 10)
	bad = true
	if _, err := db.Get(key(1), nil); !errors.Is(err, ErrReadOnly) ||
		!strings.Contains(err.Error(), "comparer") {
		t.Fatalf("%v", err)
	}
	bad = false
	if err := db.Put(key(1), nil, NoSync); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("put after the panic: %v", err)
	}
	wantValue(t, db, 1)
	mustClose(t, db)
}

// TestCloseAfterFailure: Close syncs the log after anything but a log failed for good. After that
// it returns the failure if writes were acknowledged that no sync made durable. A MANIFEST that
// failed is its error, too.
func TestCloseAfterFailure(t *testing.T) {
	cases := []struct {
		name   string
		mode   WriteMode
		fails  func(vfs.Op) bool
		closes error
	}{
		{"MANIFEST", NoSync, func(op vfs.Op) bool {
			return op.Kind == vfs.OpSync && fstest.TypeOf(op.Name) == base.FileManifest
		}, syscall.EIO},
		{"sync of the log", NoSync, func(op vfs.Op) bool {
			return op.Kind == vfs.OpSync && fstest.TypeOf(op.Name) == base.FileLog
		}, syscall.EIO},
		{"append", NoSync, func(op vfs.Op) bool {
			return op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileLog
		}, syscall.EIO},
		{"append after a sync", Sync, func(op vfs.Op) bool {
			return op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileLog
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			var broken atomic.Bool
			db := mustOpen(t, "db", &Options{FS: vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				if broken.Load() && c.fails(op) {
					return vfs.Outcome{Err: syscall.EIO}
				}
				return vfs.Outcome{}
			})})
			must(t, db.Put(key(1), []byte("value"), c.mode))
			broken.Store(true)
			failed := db.Put(key(2), []byte("value"), Sync)
			if c.name == "MANIFEST" {
				must(t, failed)
				must(t, db.Put(key(3), []byte("value"), NoSync))
				failed = db.Flush()
			}
			if failed == nil {
				t.Fatal("nothing failed")
			}
			if err := db.Close(); !errors.Is(err, c.closes) {
				t.Fatalf("closed with %v, want %v", err, c.closes)
			}
			if c.closes != nil && c.name != "MANIFEST" {
				return
			}
			db = mustOpen(t, "db", &Options{FS: mem.CrashClone(vfs.DropAll())})
			for _, i := range []int{1, 3} {
				if _, err := db.Get(key(i), nil); err != nil && (i == 1 || c.name == "MANIFEST") {
					t.Errorf("key %d, which Close made durable: %v", i, err)
				}
			}
			mustClose(t, db)
		})
	}
}

// TestFailedEditOfOperator: a MANIFEST that cannot take the name of a merge operator makes the
// database read-only at once, as it does for any other edit; a shortage heals.
func TestFailedEditOfOperator(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		var armed atomic.Bool
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if armed.Load() && op.Kind == vfs.OpAppend &&
				fstest.TypeOf(op.Name) == base.FileManifest {
				return vfs.Outcome{Err: cause}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", &Options{FS: fsys, Format: FormatNative})
		_, err := db.Keyspace("counts", nil)
		must(t, err)
		o := &KeyspaceOptions{MergeOperator: MergeOperatorNamed("append:")}
		armed.Store(true)
		if _, err := db.Keyspace("counts", o); !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
		armed.Store(false)
		err = db.Put(key(1), value(1), NoSync)
		if heals := cause == syscall.ENOSPC; (err == nil) != heals {
			t.Errorf("after %v: %v", cause, err)
		}
		_ = db.Close()
	}
}
