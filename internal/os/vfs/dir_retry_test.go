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
