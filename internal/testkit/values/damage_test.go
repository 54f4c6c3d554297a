package values

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// damaged makes a closed database with values in logs in a directory of the operating system, and
// changes the file of the first log. It returns the database's directory.
func damaged(t *testing.T, change func(path string, find func(value []byte) int)) (dir string,
	want map[string][]byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, map[string][]byte{}}
	d.fill(100)
	d.fill(200)
	d.must(d.CompactRange(nil, nil))
	if n := d.Metrics().Values.Logs; n != 1 {
		t.Fatalf("%d value logs", n)
	}
	d.must(d.Close())
	paths, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	d.must(err)
	path := paths[0]
	content, err := os.ReadFile(path)
	d.must(err)
	change(path, func(value []byte) int { return bytes.Index(content, value[:60]) })
	return dir, d.want
}

func options(change func(*lsm.Options)) *lsm.Options {
	o := &lsm.Options{LargeValue: least, DisableCompaction: true, WALPreallocate: 32 << 10}
	if change != nil {
		change(o)
	}
	return o
}

// flip changes one byte of a file.
func flip(t *testing.T, path string, offset int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[offset] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedValue changes a byte of one value. That value is an error that names log and offset,
// wherever it is read; all others are whole, and a repair reports it and leaves it out.
func TestDamagedValue(t *testing.T) {
	bad, at := "key 07", 0
	dir, want := damaged(t, func(path string, find func([]byte) int) {
		at = find(valueOf(207, 100_000))
		flip(t, path, at+5000)
	})
	db, err := lsm.Open(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	isIt := func(what string, err error) {
		t.Helper()
		var c *lsm.CorruptionError
		if !errors.As(err, &c) || filepath.Ext(c.File) != ".wal" || c.Offset != int64(at) {
			t.Errorf("%s: %v; want damage at offset %d", what, err, at)
		}
	}
	v, err := db.Get([]byte(bad), []byte("dst"))
	if isIt("Get", err); string(v) != "dst" {
		t.Errorf("Get: %q beside the error", v)
	}
	var m lsm.MultiResult
	isIt("MultiGet", db.MultiGet([][]byte{[]byte("key 06"), []byte(bad)}, &m))
	if has, err := db.Has([]byte(bad)); !has || err != nil {
		t.Errorf("Has: %v %v", has, err)
	}
	it := db.Iter(nil)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if isIt("iterator", it.Err()); n != 7 {
		t.Errorf("the iterator met %d keys before the error", n)
	}
	if !it.Last() || it.Prev() {
		t.Error("backward over the damage")
	}
	isIt("iterator back", it.Err())
	if !it.SeekGE([]byte("key 08")) || it.Err() != nil {
		t.Error("seek behind the damage:", it.Err())
	}
	it.Close()
	isIt("Verify", db.Verify(t.Context(), nil))
	if err := db.Checkpoint(t.Context(), dir+" copy"); err != nil { // as it is
		t.Error("checkpoint:", err)
	}
	rest := maps.Clone(want)
	delete(rest, bad)
	for key, value := range rest {
		if got, err := db.Get([]byte(key), nil); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := lsm.Repair(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Dropped) != 1 || string(report.Dropped[0].Smallest) != bad ||
		report.Dropped[0].Offset != int64(at) {
		t.Errorf("the repair reports %+v", report.Dropped)
	}
	verify(t, "repaired", nil, dir, rest)
	if report, err = lsm.Repair(dir, options(nil)); err != nil || report.Changed() {
		t.Errorf("a second repair: %+v, %v", report, err)
	}
}

// TestLogIsMissing removes the log, cuts it off, or puts another one in its place.
func TestLogIsMissing(t *testing.T) {
	for _, how := range []string{"removed", "cut", "empty", "other"} {
		t.Run(how, func(t *testing.T) {
			dir, want := damaged(t, func(path string, find func([]byte) int) {
				var err error
				switch how {
				case "removed":
					err = os.Remove(path)
				case "cut":
					err = os.Truncate(path, int64(find(valueOf(208, 300_000))+100))
				case "empty":
					err = os.Truncate(path, 0)
				case "other":
					var b []byte
					if b, err = os.ReadFile(path); err == nil {
						copy(b[1000:], b)
						err = os.WriteFile(path, b, 0o600)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			})
			db, err := lsm.Open(dir, options(nil))
			if how == "removed" {
				if !errors.Is(err, lsm.ErrCorruption) {
					t.Fatalf("Open: %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				bad := damagedValues(t, "the log is "+how, db, want, ".wal")
				if bad == 0 || !isCorruption(db.Verify(t.Context(), nil), ".wal") {
					t.Errorf("%d values are damaged, Verify: %v", bad, db.Verify(t.Context(), nil))
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			repairedInPart(t, dir, want)
		})
	}
}

// TestRepairKeeps leaves a whole database alone, and keeps its values where it has to make a new
// state.
func TestRepairKeeps(t *testing.T) {
	dir, want := damaged(t, func(string, func([]byte) int) {})
	report, err := lsm.Repair(dir, options(nil))
	if err != nil || report.Changed() {
		t.Fatalf("repair of a whole database: %+v, %v", report, err)
	}
	verify(t, "left alone", nil, dir, want)
	manifests, err := filepath.Glob(filepath.Join(dir, "*.manifest"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		if err := os.Remove(m); err != nil {
			t.Fatal(err)
		}
	}
	if report, err = lsm.Repair(dir, options(nil)); err != nil {
		t.Fatal(err)
	}
	if len(report.Dropped) != 1 || filepath.Ext(report.Dropped[0].File) != ".manifest" {
		t.Errorf("dropped: %+v", report.Dropped)
	}
	verify(t, "without a MANIFEST", nil, dir, want)
}

// TestEveryByte changes bytes all over a value log. Each value is whole, or its read an error that
// names the log.
func TestEveryByte(t *testing.T) {
	path := ""
	dir, want := damaged(t, func(p string, _ func([]byte) int) { path = p })
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := lsm.Open(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	damages, harmless := 0, 0
	for at := 0; at < len(content); at += 4099 {
		write := func(b byte) {
			if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		write(content[at] ^ 0x40)
		bad := damagedValues(t, fmt.Sprintf("byte %d changed", at), db, want, ".wal")
		write(content[at])
		if damages++; bad == 0 {
			harmless++
		}
		if bad > 1 {
			t.Errorf("byte %d changed: %d values are damaged", at, bad)
		}
	}
	if harmless > damages/4 || damages < 50 {
		t.Errorf("%d of %d changes are seen by nobody", harmless, damages)
	}
}

// repairedInPart repairs a database of which some values are damaged: the report names their keys,
// and the others stay.
func repairedInPart(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	report, err := lsm.Repair(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	rest := maps.Clone(want)
	for _, d := range report.Dropped {
		delete(rest, string(d.Smallest))
	}
	if len(rest) == len(want) || len(rest) < 3 {
		t.Errorf("the repair keeps %d keys of %d: %+v", len(rest), len(want), report.Dropped)
	}
	verify(t, "repaired", nil, dir, rest)
}

// damagedValues counts the values whose read is an error that names a file with the extension. All
// others are as they were written.
func damagedValues(t *testing.T, what string, db *lsm.DB, want map[string][]byte,
	ext string) (n int) {
	t.Helper()
	for key, value := range want {
		got, err := db.Get([]byte(key), nil)
		switch {
		case isCorruption(err, ext):
			n++
		case err != nil || !bytes.Equal(got, value):
			t.Fatalf("%s: %s has %d bytes, %v", what, key, len(got), err)
		}
	}
	return n
}
