package replicate

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

func TestDir(t *testing.T) {
	inMemory, err := Dir("replica", vfs.NewMem())
	must(t, err)
	inFiles, err := Dir(t.TempDir()+"/replica", nil)
	must(t, err)
	for _, target := range []Target{inMemory, inFiles, newMem()} {
		conform.Target(t, target, nil)
	}
	for _, name := range []string{"", "/a", "../a", "a/../b", "a//b", "a\\b", "c:a", "a/"} {
		if err := inFiles.Put(ctx, name, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%q: %v", name, err)
		}
	}
	deep, err := Dir(t.TempDir()+"/none/replica", nil)
	must(t, err)
	if err := deep.Put(ctx, "a", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDirFaults fails each call of the file system in a Put: the object is the one before, whole,
// or the new one, and a further Put succeeds. A power cut after a Put that succeeded keeps it.
func TestDirFaults(t *testing.T) {
	for i := int64(0); ; i++ {
		mem := vfs.NewMem()
		at := &fstest.FailAt{At: i, Outcome: vfs.Outcome{Err: syscall.EIO}}
		failing, err := Dir("replica", vfs.NewFault(mem, at.Hook))
		must(t, err)
		target, err := Dir("replica", mem)
		must(t, err)
		must(t, target.Put(ctx, "g/a", []byte("before")))
		look := func(name string, wants ...string) {
			t.Helper()
			cut, err := Dir("replica", mem.CrashClone(vfs.CrashOptions{}))
			must(t, err)
			for _, target := range []Target{target, cut} {
				got, err := target.Get(ctx, name)
				if errors.Is(err, fs.ErrNotExist) {
					got, err = []byte("none"), nil
				}
				must(t, err)
				if !slices.Contains(wants, string(got)) {
					t.Errorf("call %d: %s has %q", i, name, got)
				}
			}
		}
		look("g/a", "before")
		for _, name := range []string{"g/a", "h/b"} {
			err := failing.Put(ctx, name, []byte("after"))
			if err == nil {
				look(name, "after")
				continue
			}
			look(name, "before", "none", "after")
			must(t, failing.Put(ctx, name, []byte("again")))
			look(name, "again")
		}
		failing.(*dirTarget).tidy()
		if names, err := mem.List("replica/" + incoming); err != nil || len(names) > 0 {
			t.Error(names, err)
		}
		if at.Failed() == 0 {
			return
		}
	}
}

// TestDirFoldersOfOthers: folders that may not be read, as those in the root of a file system, are
// no objects.
func TestDirFoldersOfOthers(t *testing.T) {
	mem := vfs.NewMem()
	target, err := Dir("replica", vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if op.Kind == vfs.OpList && strings.ContainsAny(filepath.Base(op.Name), "+ .$") {
			out.Err = syscall.EACCES
		}
		return out
	}))
	must(t, err)
	must(t, target.Put(ctx, "g/begin", []byte("x")))
	for _, name := range []string{"lost+found", ".Trash-1000", "$RECYCLE.BIN",
		"System Volume Information"} {
		must(t, mem.MkdirAll(filepath.Join("replica", name)))
	}
	if names, err := target.List(ctx, ""); err != nil || !slices.Equal(names, []string{"g/begin"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestDirPutBesideDelete: an object is stored in a folder that is about to become empty.
func TestDirPutBesideDelete(t *testing.T) {
	var target Target
	var deleted chan error
	target, err := Dir("replica", vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (out vfs.Outcome) {
		if op.Kind == vfs.OpRename && deleted == nil {
			deleted = make(chan error, 1)
			go func() { deleted <- target.Delete(ctx, "log/1") }()
			for range 1000 {
				runtime.Gosched() // it may come to its end
			}
		}
		return out
	}))
	must(t, err)
	deleted = make(chan error, 1)
	must(t, target.Put(ctx, "log/1", []byte("x")))
	deleted = nil
	must(t, target.Put(ctx, "log/2", []byte("x")))
	must(t, <-deleted)
	if names, err := target.List(ctx, ""); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
}

// TestDirTidy removes files that a put left, and keeps other files in a folder of the same name.
func TestDirTidy(t *testing.T) {
	mem := vfs.NewMem()
	target, err := Dir("replica", mem)
	must(t, err)
	must(t, target.Put(ctx, "g/a", []byte("a")))
	for _, name := range []string{"mail", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", unfinished + "ABC"} {
		must(t, target.(*dirTarget).write("replica/"+incoming+"/"+name, []byte("b")))
	}
	target.(*dirTarget).tidy()
	left, err := mem.List("replica/" + incoming)
	must(t, err)
	slices.Sort(left)
	if !slices.Equal(left, []string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "mail"}) {
		t.Errorf("left %q", left)
	}
}

// TestRunOnClosedDatabase: that is what Run says, whatever Close has given up by then.
func TestRunOnClosedDatabase(t *testing.T) {
	top := t.TempDir()
	db, err := lsm.Open(filepath.Join(top, "db"), nil)
	must(t, err)
	must(t, db.Close())
	target, err := Dir(filepath.Join(top, "replica"), nil)
	must(t, err)
	if err := Run(ctx, db, target, nil); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("Run on a closed database: %v", err)
	}
}
