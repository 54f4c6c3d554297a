package vfs

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestOpenDirAgain: a directory whose name could not be made durable is made
// again by the next try, name and all.
func TestOpenDirAgain(t *testing.T) {
	for at := 1; at <= 3; at++ {
		mem := NewMem()
		syncs := 0
		fsys := NewFault(mem, func(op Op) Outcome {
			if op.Kind != OpSyncDir {
				return Outcome{}
			}
			if syncs++; syncs == at {
				return Outcome{Err: errors.New("boom")}
			}
			return Outcome{}
		})
		if _, err := OpenDir(fsys, "a/b/db", DirOptions{Create: true}); err == nil {
			t.Fatalf("the directory opens although sync %d fails", at)
		}
		if names, err := mem.List("/"); err != nil || len(names) > 0 {
			t.Errorf("left: %v, %v", names, err)
		}
		if _, err := OpenDir(fsys, "a/b/db", DirOptions{}); !errors.Is(err, base.ErrDoesNotExist) {
			t.Errorf("without Create: %v", err)
		}
		d, err := OpenDir(fsys, "a/b/db", DirOptions{Create: true})
		must(t, err)
		must(t, d.Close())
		if _, err := mem.CrashClone(DropAll()).Stat("a/b/db"); err != nil {
			t.Errorf("a power cut takes the directory: %v", err)
		}
	}
}

// TestOpenDirThatWasMade: the name of an empty directory, and the names above it, are durable once
// it is open, although another program made them, or an OpenDir that failed.
func TestOpenDirThatWasMade(t *testing.T) {
	made := func(fsys FS) { must(t, fsys.MkdirAll("a/b/db")) }
	failed := func(fsys FS) {
		faulty := NewFault(fsys, func(op Op) (out Outcome) {
			if op.Kind == OpMkdir {
				out.Err, out.Done = errors.New("boom"), true
			}
			return out
		})
		if _, err := OpenDir(faulty, "a/b/db", DirOptions{Create: true}); err == nil {
			t.Fatal("a failure is not told")
		}
	}
	for _, before := range []func(FS){made, failed} {
		for _, used := range []string{"", base.CurrentName} {
			mem := NewMem()
			before(mem)
			d, err := OpenDir(mem, "a/b/db", DirOptions{Create: true, Used: used})
			must(t, err)
			must(t, d.Close())
			if _, err := mem.CrashClone(DropAll()).Stat("a/b/db"); err != nil {
				t.Errorf("a power cut takes the directory: %v", err)
			}
		}
	}
	// A directory that was opened before is not looked at.
	mem := NewMem()
	made(mem)
	must(t, mem.MkdirAll("a/b/db/"+base.CurrentName))
	fsys := NewFault(mem, func(op Op) (out Outcome) {
		if op.Kind == OpSyncDir || op.Kind == OpList {
			t.Error(op)
		}
		return out
	})
	d, err := OpenDir(fsys, "a/b/db", DirOptions{Create: true, Used: base.CurrentName})
	must(t, err)
	must(t, d.Close())
}
