package values

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

var golden = flag.Bool("golden", false, "make testdata/golden anew")

// goldenDir is a database of the version that was the first to have values in logs. It stays.
const goldenDir = "testdata/golden"

// goldenValues are what it has.
func goldenValues() map[string][]byte {
	want := map[string][]byte{}
	for i := range 40 {
		want[fmt.Sprintf("key %02d", i)] = valueOf(i, 1+i*i*5) // up to 7,606 bytes
	}
	want["long"] = valueOf(100, 70_000)
	return want
}

// TestGolden reads the database, compacts a copy of it, and writes to it.
func TestGolden(t *testing.T) {
	if *golden {
		makeGolden(t)
	}
	dir := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(goldenDir)); err != nil {
		t.Fatal(err)
	}
	want := goldenValues()
	follower, err := lsm.OpenFollower(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, follower, want)
	if err := follower.Close(); err != nil {
		t.Error(err)
	}
	db, err := lsm.Open(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, want}
	check(t, d, want)
	if m := d.Metrics(); m.Values.Logs != 2 {
		t.Errorf("%d value logs", m.Values.Logs)
	}
	d.must(d.Verify(t.Context(), nil))
	d.fill(100)
	d.must(d.CompactRange(nil, nil))
	check(t, d, want)
	d.must(d.Close())
}

// makeGolden makes the database: of two value logs one has values that are overwritten.
func makeGolden(t *testing.T) {
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := lsm.Open(goldenDir, options(func(o *lsm.Options) { o.WALPreallocate = -1 }))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, map[string][]byte{}}
	d.put("long", valueOf(99, 20_000))
	all := goldenValues()
	for i := range 20 {
		key := fmt.Sprintf("key %02d", i)
		d.put(key, all[key])
	}
	d.must(d.Flush())
	for key, value := range all {
		if d.want[key] == nil || key == "long" {
			d.put(key, value)
		}
	}
	d.must(d.Flush())
	d.must(d.Close())
	d.must(os.Remove(filepath.Join(goldenDir, "LOCK")))
}
