package lsm

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

func TestDestroyNeedsTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := mustOpen(t, dir, nil)
	mustPut(t, db, 1)
	if err := Destroy(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("destroy of an open database: %v", err)
	}
	mustClose(t, db)
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("still there: %v", err)
	}
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
}

// TestDestroyWhereOpenFilesStay destroys a database on a file system that removes no file that is
// open, as SMB does: LOCK goes once it is closed.
func TestDestroyWhereOpenFilesStay(t *testing.T) {
	mem := vfs.NewMem()
	var locked atomic.Bool
	fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if path.Base(op.Name) != base.LockName {
			return out
		}
		switch {
		case op.Kind == vfs.OpLock:
			locked.Store(true)
		case op.Kind == vfs.OpClose:
			locked.Store(false)
		case op.Kind == vfs.OpRemove && locked.Load():
			out.Err = syscall.EBUSY
		}
		return out
	})
	o := &Options{FS: fsys}
	db := mustOpen(t, "db", o)
	mustPut(t, db, 1)
	mustClose(t, db)
	must(t, Destroy("db", o))
	if _, err := mem.Stat("db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	must(t, Destroy("db", o))
}

// TestDestroyAgain: where a file could not be removed, or not be looked at, another try removes it,
// also if only the MANIFEST tells that it is the database's.
func TestDestroyAgain(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpRemove, vfs.OpStat} {
		mem := vfs.NewMem()
		table := ""
		failed := false
		fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if op.Kind == kind && table != "" && path.Base(op.Name) == table && !failed {
				failed, out.Err = true, syscall.EIO
			}
			return out
		})
		o := &Options{FS: fsys, Format: FormatLevelDB}
		db := mustOpen(t, "db", o)
		mustPut(t, db, 1)
		mustFlush(t, db)
		mustClose(t, db)
		names, err := mem.List("db")
		must(t, err)
		for _, name := range names {
			if is, _ := base.LevelDB.ParseFileName(name); is == base.FileTable {
				table = name
			}
		}
		must(t, mem.Remove(path.Join("db", table)))
		must(t, fstest.WriteFile(mem, path.Join("db", table), []byte("damaged")))
		if err := Destroy("db", o); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v fails: %v", kind, err)
		}
		must(t, Destroy("db", o))
		if names, err := mem.List("db"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v failed once: left are %v, %v", kind, names, err)
		}
	}
}
