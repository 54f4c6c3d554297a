//go:build unix

package lsm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// duringCheckpoint opens databases of both formats and calls act once in a checkpoint, when the
// first file of the copy gets its name. act gets the checkpoint's target, and test the
// checkpoint's error.
func duringCheckpoint(t *testing.T, act func(t *testing.T, db *DB, to string),
	test func(t *testing.T, db *DB, to string, err error)) {
	var hook atomic.Pointer[func()] // background work of the database calls the file system, too
	fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpLink {
			if f := hook.Swap(nil); f != nil {
				(*f)()
			}
		}
		return vfs.Outcome{}
	})
	dir := t.TempDir()
	eachFormat(t, fsys, filepath.Join(dir, "db"), func(t *testing.T, db *DB) {
		to := filepath.Join(dir, t.Name()[strings.LastIndex(t.Name(), "/")+1:], "copy")
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		once := func() { act(t, db, to) }
		hook.Store(&once)
		err := db.Checkpoint(context.Background(), to)
		if hook.Load() != nil {
			t.Fatal("the checkpoint links no table")
		}
		test(t, db, to, err)
		putKeys(t, db, 100)
		mustFlush(t, db)
		if err := db.Metrics().ReadOnly; err != nil {
			t.Errorf("the database is read-only: %v", err)
		}
	})
}

// TestCheckpointStageRemoved: the unfinished copy is nothing to the database. A program that
// removes it, or its LOCK, or a file in it makes the checkpoint fail, and nothing else.
func TestCheckpointStageRemoved(t *testing.T) {
	for _, what := range []string{".", "LOCK", "db"} {
		t.Run(what, func(t *testing.T) {
			duringCheckpoint(t, func(t *testing.T, _ *DB, to string) {
				if err := os.RemoveAll(filepath.Join(to+".incomplete", what)); err != nil {
					t.Error(err)
				}
			}, func(t *testing.T, db *DB, to string, err error) {
				if !errors.Is(err, ErrDirectoryChanged) || !strings.Contains(err.Error(), "copy") {
					t.Errorf("the checkpoint fails with %v", err)
				}
				if err := os.RemoveAll(to + ".incomplete"); err != nil {
					t.Fatal(err)
				}
				mustCheckpoint(t, db, to)
			})
		})
	}
}

// TestTwoCheckpointsOfOneName: the second one fails with ErrLocked, and the first one is made.
func TestTwoCheckpointsOfOneName(t *testing.T) {
	duringCheckpoint(t, func(t *testing.T, db *DB, to string) {
		if err := db.Checkpoint(context.Background(), to); !errors.Is(err, ErrLocked) {
			t.Errorf("a second checkpoint of the same name: %v", err)
		}
	}, func(t *testing.T, db *DB, to string, err error) {
		if err != nil {
			t.Fatal(err)
		}
		copied := mustOpen(t, to, nil)
		wantValues(t, copied, 4000)
		mustClose(t, copied)
		if err := db.Checkpoint(context.Background(), to); !errors.Is(err, ErrExists) {
			t.Errorf("a third checkpoint of the same name: %v", err)
		}
	})
}

// TestLockGuardsAfterCheckpoint: a checkpoint that ends takes nothing from the database's lock.
func TestLockGuardsAfterCheckpoint(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		dir := t.TempDir()
		db := mustOpen(t, filepath.Join(dir, "db"), &Options{Format: format})
		putKeys(t, db, 100)
		mustFlush(t, db)
		mustCheckpoint(t, db, filepath.Join(dir, "copy"))
		if _, err := Open(filepath.Join(dir, "db"), nil); !errors.Is(err, ErrLocked) {
			t.Errorf("%v: a second opening: %v", format, err)
		}
		if err := os.Remove(filepath.Join(dir, "db", "LOCK")); err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, 1)
		if err := db.Flush(); !errors.Is(err, ErrDirectoryChanged) {
			t.Errorf("%v: a flush without LOCK: %v", format, err)
		}
		_ = db.Close() // fails, as the flush does
	}
}
