package lsm

import (
	"context"
	"errors"
	"fmt"
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

// TestDestroyOfInterruptedUpgrade destroys what is left of an upgrade that ends at each of its
// calls. A native file that stays would be a database that lost its CURRENT.
func TestDestroyOfInterruptedUpgrade(t *testing.T) {
	source := vfs.NewMem()
	levelDBDirectory(t, source)
	for at := int64(0); ; at++ {
		mem := source.Clone()
		fail := &fstest.FailAt{At: at, Forever: true, Outcome: vfs.Outcome{Err: syscall.EIO}}
		err := Upgrade("db", &Options{FS: vfs.NewFault(mem, fail.Hook)})
		must(t, Destroy("db", &Options{FS: mem}))
		if names, lerr := mem.List("db"); !errors.Is(lerr, fs.ErrNotExist) {
			t.Errorf("%v: left are %v, %v", err, names, lerr)
		}
		if fail.Failed() == 0 {
			return
		}
	}
}

// TestDestroyOfInterruptedLoad destroys what is left of a bulk load that ends at its calls, or by a
// power cut at them: sorted runs have names of tables.
func TestDestroyOfInterruptedLoad(t *testing.T) {
	entries := func(yield func(key, value []byte) bool) {
		for i := range 3000 {
			if !yield(fmt.Appendf(nil, "%04d", i*7%3000), make([]byte, 100)) {
				return
			}
		}
	}
	for at := int64(0); ; at += 3 {
		mem := vfs.NewMem()
		var begun atomic.Bool
		fail := &fstest.FailAt{At: at, Forever: true, Outcome: vfs.Outcome{Err: syscall.EIO},
			Match: func(vfs.Op) bool { return begun.Load() }}
		db := mustOpen(t, "db", &Options{FS: vfs.NewFault(mem, fail.Hook), Format: FormatLevelDB})
		begun.Store(true)
		err := db.BulkLoad(context.Background(), entries, &BulkLoadOptions{Memory: 64 << 10})
		_ = db.Close() // whose calls fail, too
		states := []*vfs.Mem{mem}
		for _, keep := range []func(block int) bool{
			func(block int) bool { return true },
			func(block int) bool { return block == 0 },
			func(block int) bool { return block > 0 },
		} {
			o := vfs.KeepAll()
			o.KeepData = func(_ string, block int) bool { return keep(block) }
			o.Torn = func(_ string, n int) int { return n / 2 }
			states = append(states, mem.CrashClone(o))
		}
		for i, mem := range states {
			must(t, Destroy("db", &Options{FS: mem}))
			if names, lerr := mem.List("db"); !errors.Is(lerr, fs.ErrNotExist) {
				t.Errorf("%v, state %d: left are %v, %v", err, i, names, lerr)
			}
		}
		if fail.Failed() == 0 {
			return
		}
	}
}
