package backup_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestRenameWithEffect: a restore or checkpoint whose last rename takes effect, and fails all the
// same, is there; one whose rename has no effect leaves nothing.
func TestRenameWithEffect(t *testing.T) {
	for _, effect := range []bool{true, false} {
		mem := vfs.NewMem()
		fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if op.Kind == vfs.OpRename && filepath.Base(op.Name) == "db" {
				out.Err, out.Done = syscall.EIO, effect
			}
			return out
		})
		db := mustOpen(t, "source", small(fsys))
		fill(t, db, 0, 1000)
		f := mustFolder(t, "backups", fsys)
		id := mustCreate(t, f, db).ID
		for name, make := range map[string]func(dir string) error{
			"restored":   func(dir string) error { return f.Restore(ctx, id, dir, nil) },
			"checkpoint": func(dir string) error { return db.Checkpoint(ctx, dir) },
		} {
			err := make(name)
			if effect {
				must(t, err)
				has(t, name, mem, 1000)
			} else if !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			_, err = mem.Stat(name)
			_, left := mem.Stat(name + ".incomplete")
			if there := err == nil; there != effect || left == nil {
				t.Errorf("%s: %v, %v", name, err, left)
			}
		}
		must(t, f.Close())
		must(t, db.Close())
	}
}

// TestLastLookThatFails: a backup whose files cannot be looked at says so, and not that another
// program changed them. The next one succeeds.
func TestLastLookThatFails(t *testing.T) {
	mem := vfs.NewMem()
	failing := false
	fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if failing && op.Kind == vfs.OpStat && strings.HasSuffix(op.Name, ".backup") {
			out.Err, failing = syscall.EIO, false
		}
		return out
	})
	db := mustOpen(t, "db", small(mem))
	f := mustFolder(t, "backups", fsys)
	fill(t, db, 0, 500)
	failing = true
	_, err := f.Create(ctx, db, nil)
	if !errors.Is(err, syscall.EIO) || errors.Is(err, lsm.ErrDirectoryChanged) || failing {
		t.Errorf("%v", err)
	}
	must(t, f.Verify(ctx, mustCreate(t, f, db).ID, nil))
	must(t, f.Close())
	must(t, db.Close())
}
