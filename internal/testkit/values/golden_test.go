package values

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// goldenExpiringDir is a database of the first version with references that expire. It stays.
const goldenExpiringDir = "testdata/expiring"

// TestGoldenExpiring reads the database before and after the hour in which its values live.
func TestGoldenExpiring(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	set := func(o *lsm.Options) { c.set(o); o.WALPreallocate = -1 }
	if *golden {
		if err := os.RemoveAll(goldenExpiringDir); err != nil {
			t.Fatal(err)
		}
		db, err := lsm.Open(goldenExpiringDir, options(set))
		if err != nil {
			t.Fatal(err)
		}
		d := &database{db, t, vfs.OS{}, map[string][]byte{}}
		d.goldenExpiring()
		d.must(d.Flush())
		d.must(d.Close())
		d.must(os.Remove(filepath.Join(goldenExpiringDir, "LOCK")))
	}
	dir := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(goldenExpiringDir)); err != nil {
		t.Fatal(err)
	}
	db, err := lsm.Open(dir, options(set))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, map[string][]byte{}}
	model := open(t, vfs.NewMem(), d.want, c.set) // which fills want
	model.goldenExpiring()
	d.must(model.Close())
	check(t, d, d.want)
	d.checkTTL()
	if m := d.Metrics(); m.Values.Logs != 1 || m.Values.Bytes != 2*(1000+7000+70_000) {
		t.Errorf("%+v", m.Values)
	}
	d.checkExpiry(c)
}

// goldenExpiring puts what the database has.
func (d *database) goldenExpiring() {
	for i, n := range []int{10, 1000, 7000, 70_000} {
		d.putTTL(fmt.Sprintf("goes %d", i), valueOf(i, n))
		d.put(fmt.Sprintf("stays %d", i), valueOf(10+i, n))
	}
}
