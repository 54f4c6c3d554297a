//go:build unix

package lsm_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// TestNothingInside: no copy or dump is made in the directory of the database, nor restored in the
// folder of its backups, by way of links either; what only looks as if it were inside is.
func TestNothingInside(t *testing.T) {
	lsm.NeedsNative(t)
	ctx, dir := context.Background(), t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	do(os.MkdirAll(at("a", "deep"), 0o700), os.Mkdir(at("other"), 0o700),
		os.Symlink("a/deep", at("to-deep")))
	db, err := lsm.Open(at("to-deep", "db"), nil)
	do(err)
	do(db.Put([]byte("k"), []byte("v"), lsm.Sync), db.Flush())
	do(os.Mkdir(at("a", "deep", "db", "mine"), 0o700), os.Symlink("a/deep/db", at("to-db")),
		os.Symlink("a/deep/db/mine", at("to-mine")),
		os.Symlink("../..", at("a", "deep", "up")),
		os.Symlink("a/deep/db/../../../other", at("to-other")))

	folder, err := backup.Open(at("folder"), nil)
	do(err)
	info, err := folder.Create(ctx, db, nil)
	do(err, os.Symlink("folder", at("to-folder")))
	tables, err := filepath.Glob(at("a", "deep", "db", "*.loam"))
	if do(err); len(tables) == 0 {
		t.Fatal("there is no table")
	}
	for _, inside := range []string{
		at("to-deep", "db"), at("to-deep", "db", "x"), at("a", "deep", "db", "x"),
		at("a", "deep", "db", "x", "y"), at("to-db", "x"), at("to-mine", "x"),
		at("to-mine", "x", "y"), at("a", "deep", "up", "a", "deep", "db", "x"),
	} {
		if err := db.Checkpoint(ctx, inside); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("Checkpoint in %s: %v", inside, err)
		}
		f, err := backup.Open(inside, nil)
		if err != nil {
			continue // the database, or nothing to make a directory in
		}
		if _, err := f.Create(ctx, db, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("Create in %s: %v", inside, err)
		}
		do(f.Close(), os.RemoveAll(inside))
	}
	for _, inside := range []string{tables[0], at("to-db", filepath.Base(tables[0])),
		at("a", "deep", "up", "to-db", filepath.Base(tables[0]))} {
		if err := db.Ingest(ctx, nil, inside); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("Ingest of %s: %v", inside, err)
		}
	}
	for _, inside := range []string{at("folder", "x"), at("to-folder", "x"),
		at("to-folder", "data", "x")} {
		if err := folder.Restore(ctx, info.ID, inside,
			nil); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("Restore in %s: %v", inside, err)
		}
	}
	testDumpsInside(t, db, at)
	for i, outside := range []string{at("db"), at("a", "deep", "db2"), at("to-other", "x"),
		at("a", "deep", "up", "y"), at("to-deep", "z")} {
		if err := db.Checkpoint(ctx, outside); err != nil {
			t.Errorf("Checkpoint in %s: %v", outside, err)
		}
		if err := folder.Restore(ctx, info.ID, at("other", string(rune('0'+i))), nil); err != nil {
			t.Error(err)
		}
	}
	do(folder.Close(), db.Close())
	for _, inside := range []string{at("to-db", "x"), at("to-mine", "x"),
		at("a", "deep", "db", "x")} {
		if err := lsm.Export(ctx, at("a", "deep", "db"), inside, lsm.FormatNative, nil,
			nil); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("Export to %s: %v", inside, err)
		}
	}
	names, err := os.ReadDir(at("a", "deep", "db", "mine"))
	if do(err); len(names) > 0 {
		t.Errorf("%v is left in the database", names)
	}
}

// testDumpsInside writes dumps into files inside of the database's directory, which is refused,
// and outside of it.
func testDumpsInside(t *testing.T, db *lsm.DB, at func(...string) string) {
	ctx := context.Background()
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for _, inside := range []string{at("to-deep", "db", "x"), at("a", "deep", "db", "x"),
		at("to-mine", "x"), at("a", "deep", "up", "to-db", "x")} {
		if err := dump.CheckPath(db, inside); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("CheckPath of %s: %v", inside, err)
		}
		f, err := os.Create(inside)
		do(err)
		if _, err := dump.Write(ctx, db, f, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("a dump in %s: %v", inside, err)
		}
		if size, err := f.Seek(0, io.SeekEnd); err != nil || size > 0 {
			t.Errorf("%s has %d bytes, %v", inside, size, err)
		}
		do(f.Close(), os.Remove(inside))
	}
	for i, outside := range []string{at("dump0"), at("to-other", "dump1"),
		at("a", "deep", "up", "dump2"), at("to-deep", "dump3")} {
		f, err := os.Create(outside)
		do(err, dump.CheckPath(db, outside))
		if i == 3 { // it has another name than the one that is known: nothing is said against it
			do(os.Rename(outside, at("to-db", "dump3")))
		}
		if _, err := dump.Write(ctx, db, f, nil); err != nil {
			t.Errorf("a dump in %s: %v", outside, err)
		}
		do(f.Close())
	}
	do(os.Remove(at("to-db", "dump3")))
}

// TestDestroyThroughLink: the link is not the database's.
func TestDestroyThroughLink(t *testing.T) {
	parent := t.TempDir()
	dir, link := filepath.Join(parent, "db"), filepath.Join(parent, "link")
	db, err := lsm.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), os.Symlink("db", link), lsm.Destroy(link, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(link); err != nil {
		t.Errorf("the link is gone: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
