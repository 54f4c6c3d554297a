package lsm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/vfs"
)

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, small(Options{}))
	putKeys(t, db, 5_000)
	mustClose(t, db)
	before := listing(t, dir)
	ro := mustOpen(t, dir, small(Options{ReadOnly: true}))
	wantValues(t, ro, 5_000)
	mustClose(t, ro)
	if after := listing(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		info, err2 := e.Info()
		if errors.Is(errors.Join(err, err2), fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %s %x\n", e.Name(), len(data), info.ModTime(), data[:min(len(data), 16)])
	}
	return b.String()
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rocks := filepath.Join(dir, "rocks")
	os.Mkdir(rocks, 0o700)
	os.WriteFile(filepath.Join(rocks, "OPTIONS-000007"), nil, 0o600)
	orphan := filepath.Join(dir, "orphan")
	os.Mkdir(orphan, 0o700)
	os.WriteFile(filepath.Join(orphan, "000005.ldb"), nil, 0o600)
	made := filepath.Join(dir, "made")
	db := mustOpen(t, made, nil)
	defer db.Close()
	other := filepath.Join(dir, "other")
	mustClose(t, mustOpen(t, other, nil))
	for _, c := range []struct {
		dir  string
		o    *Options
		want error
		text string
	}{
		{file, nil, ErrNotADatabase, "a file"},
		{rocks, nil, ErrNotADatabase, "RocksDB"},
		{orphan, nil, ErrCorruption, "CURRENT"},
		{filepath.Join(dir, "none"), &Options{ErrorIfMissing: true}, ErrDoesNotExist, ""},
		{filepath.Join(dir, "none"), &Options{ReadOnly: true}, ErrDoesNotExist, ""},
		{other, &Options{ErrorIfExists: true}, ErrExists, ""},
		{made, nil, ErrLocked, ""},
		{other, &Options{Comparer: ReverseBytewiseComparer}, ErrComparerMismatch, "rocksdb.ReverseBytewiseComparator"},
		{other, &Options{BlockSize: 1}, ErrInvalidArgument, "block_size"},
		{other, &Options{Comparer: &Comparer{}}, ErrInvalidArgument, "Comparer"},
	} {
		db, err := Open(c.dir, c.o)
		if err == nil {
			db.Close()
		}
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("open %s with %+v: %v; want %v with %q", c.dir, c.o, err, c.want, c.text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a failed open made the directory")
	}
}

func TestClosedDatabaseAnswersErrClosed(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	mustPut(t, db, 1)
	it := db.Iter(nil)
	snap := db.Snapshot()
	if !it.First() {
		t.Fatal("no entry")
	}
	mustClose(t, db)
	_, getErr := db.Get(key(1), nil)
	_, snapErr := snap.Get(key(1), nil)
	closedIter := db.Iter(nil)
	for what, err := range map[string]error{
		"get": getErr, "snapshot": snapErr, "put": db.Put(key(2), nil, NoSync), "close": db.Close(),
		"flush": db.Flush(), "compact": db.CompactRange(nil, nil), "iter": closedIter.Err(),
		"multiget": db.MultiGet([][]byte{key(1)}, new(MultiResult)),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if it.Next() || it.Valid() || !errors.Is(it.Err(), ErrClosed) {
		t.Errorf("iterator on a closed database: %v", it.Err())
	}
	it.Close()
	it.Close()
	snap.Close()
}

func TestIdleDatabaseWritesNothing(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	defer db.Close()
	mustPut(t, db, 1)
	// The work that opening and writing left behind may take any time.
	before, after := "", listing(t, dir)
	for try := 0; before != after; try++ {
		if try == 100 {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
		time.Sleep(300 * time.Millisecond)
		before, after = after, listing(t, dir)
	}
}
