package lsm

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
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
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		var data []byte
		if err == nil {
			info, err = e.Info()
		}
		if err == nil && !e.IsDir() {
			data, err = os.ReadFile(path)
		}
		if err == nil && path != dir {
			fmt.Fprintf(&b, "%s %d %s %x\n", path, len(data), info.ModTime(),
				data[:min(len(data), 16)])
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
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
	empty := filepath.Join(dir, "empty")
	os.Mkdir(empty, 0o700)
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
		{other, &Options{ErrorIfExists: true, Comparer: ReverseBytewiseComparer}, ErrExists, ""},
		{empty, &Options{ErrorIfMissing: true}, ErrDoesNotExist, ""},
		{made, nil, ErrLocked, ""},
		{other, &Options{Comparer: ReverseBytewiseComparer}, ErrComparerMismatch,
			"rocksdb.ReverseBytewiseComparator"},
		{other, &Options{BlockSize: 1}, ErrInvalidArgument, "block_size"},
		{other, &Options{Comparer: &Comparer{}}, ErrInvalidArgument, "Comparer"},
		{other, &Options{L0Compaction: 50, L0Stop: 4}, ErrInvalidArgument,
			"l0_stop must be larger"},
		{other, &Options{ErrorIfMissing: true, ErrorIfExists: true}, ErrExists, ""}, // as LevelDB
		{other, &Options{ReadOnly: true, ErrorIfExists: true}, ErrInvalidArgument,
			"makes no new database"},
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
	if err := Upgrade(empty, nil); !errors.Is(err, ErrDoesNotExist) {
		t.Errorf("upgrade of an empty directory: %v", err)
	}
	if err := os.Remove(empty); err != nil {
		t.Errorf("something was left in an empty directory: %v", err)
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
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := mustOpen(t, dir, nil)
		defer db.Close()
		mustPut(t, db, 1)
		time.Sleep(time.Minute) // for what opening and writing left to do
		synctest.Wait()
		before := listing(t, dir)
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := listing(t, dir); before != after {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
	})
}

// TestFailedCreationCanBeCut opens a directory with a fault at each call in turn, once
// with one that lasts, and cuts the power or kills the process at each call after it:
// what a failed creation leaves is never taken for a damaged database.
func TestFailedCreationCanBeCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	little := func(fsys vfs.FS) *Options {
		// it is searched for chunks
		return &Options{FS: fsys, WriteBufferSize: 64 << 10, CacheSize: 64 << 10,
			WALPreallocate: 8 << 10}
	}
	states := map[string]func() vfs.CrashOptions{
		"kept": vfs.KeepAll, "dropped": vfs.DropAll, "random": func() vfs.CrashOptions {
			return vfs.RandomBlocks(rng)
		},
	}
	failures := 0
	for n := 2; ; n++ {
		fault, lasts := n/2, n%2 == 1
		var cuts []string
		clones := map[string]*vfs.Mem{}
		mem, calls := vfs.NewMem(), 0
		db, err := Open("/db", little(vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			calls++
			if calls > fault {
				for name, o := range states {
					cut := fmt.Sprintf("fault at call %d (lasts: %v), cut before %v at %d, %s",
						fault, lasts, op, calls, name)
					cuts = append(cuts, cut)
					clones[cut] = mem.CrashClone(o())
				}
			}
			if calls == fault || calls > fault && lasts {
				return vfs.Outcome{Err: syscall.EIO}
			}
			return vfs.Outcome{}
		})))
		if err == nil {
			done := calls < fault
			_ = db.Close() // which may meet the fault
			if done {
				break
			}
			continue
		}
		failures++
		for _, cut := range cuts {
			db, err := Open("/db", little(clones[cut]))
			if err != nil {
				t.Errorf("%s: %v", cut, err)
				continue
			}
			putKeys(t, db, 1)
			wantValues(t, db, 1)
			mustClose(t, db)
		}
	}
	if failures < 10 {
		t.Errorf("only %d openings failed", failures)
	}
}
