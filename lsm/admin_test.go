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
