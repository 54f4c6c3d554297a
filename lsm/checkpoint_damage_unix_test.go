//go:build unix

package lsm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCopiesOfCutTable has a table cut off, and then removed, below an opened database: a
// checkpoint and a follower name the file as damaged, and nobody else.
func TestCopiesOfCutTable(t *testing.T) {
	needsNative(t)
	for name, o := range map[string]*Options{
		"clear":     {ErrorIfMissing: true},
		"encrypted": {ErrorIfMissing: true, Encryption: provider(t, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir, to := filepath.Join(top, "db"), filepath.Join(top, "copy")
			db := mustOpen(t, dir, &Options{Encryption: o.Encryption})
			putKeys(t, db, 100)
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, db)
			tables, err := filepath.Glob(filepath.Join(dir, "*.loam"))
			if err != nil || len(tables) != 1 {
				t.Fatal(tables, err)
			}
			names := func(what string, err error) {
				t.Helper()
				var c *CorruptionError
				if !errors.As(err, &c) || c.File != filepath.Base(tables[0]) {
					t.Errorf("%s: %v", what, err)
				}
			}
			db = mustOpen(t, dir, o)
			defer mustClose(t, db)
			if err := os.Truncate(tables[0], 100); err != nil {
				t.Fatal(err)
			}
			names("a checkpoint of a cut table", db.Checkpoint(context.Background(), to))
			if err := os.Remove(tables[0]); err != nil {
				t.Fatal(err)
			}
			names("a checkpoint without a table", db.Checkpoint(context.Background(), to))
			_, err = OpenFollower(dir, o)
			names("a follower without a table", err)
		})
	}
}
