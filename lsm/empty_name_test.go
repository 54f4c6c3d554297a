package lsm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// TestEmptyName: the name "" is no directory, and not the working directory above all.
func TestEmptyName(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put([]byte("k"), []byte("v"), lsm.Sync); err != nil {
		t.Fatal(err)
	}
	folder, err := backup.Open(filepath.Join(dir, "folder"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	info, err := folder.Create(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, lsm.ErrInvalidArgument) || !strings.Contains(err.Error(), "name") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, place := range []string{"empty", "db"} { // the working directory
		path := filepath.Join(dir, place)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Chdir(path)
		before, err := filepath.Glob("*")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []*lsm.Options{nil, {ReadOnly: true}, {ErrorIfMissing: true}} {
			_, err := lsm.Open("", o)
			refuse("Open", err)
		}
		_, err = lsm.OpenFollower("", nil)
		refuse("OpenFollower", err)
		_, err = lsm.Repair("", nil)
		refuse("Repair", err)
		refuse("Destroy", lsm.Destroy("", nil))
		refuse("Upgrade", lsm.Upgrade("", nil))
		refuse("Checkpoint", db.Checkpoint(ctx, ""))
		refuse("Export from", lsm.Export(ctx, "", filepath.Join(dir, "out"), lsm.FormatNative, nil,
			nil))
		refuse("Export to", lsm.Export(ctx, filepath.Join(dir, "db"), "", lsm.FormatNative, nil,
			nil))
		refuse("Restore", folder.Restore(ctx, info.ID, "", nil))
		_, err = backup.Open("", nil)
		refuse("a folder of backups", err)
		_, err = lsm.NewTableWriter("", nil)
		refuse("a table", err)
		if after, _ := filepath.Glob("*"); strings.Join(after, " ") != strings.Join(before, " ") {
			t.Errorf("%s has %v, had %v", place, after, before)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
