// Package values tests large values, which stay in logs, beside the other features of a database.
package values

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

const least = 64 // Options.LargeValue of the tests

// database is a database on a file system in memory, and what it should have.
type database struct {
	*lsm.DB
	t    testing.TB
	fs   vfs.FS
	want map[string][]byte
}

// open opens or creates the database of fsys.
func open(t testing.TB, fsys vfs.FS, want map[string][]byte, change func(*lsm.Options)) *database {
	t.Helper()
	o := &lsm.Options{FS: fsys, LargeValue: least, WALPreallocate: 32 << 10,
		Compression: lsm.NoCompression, DisableCompaction: true}
	if change != nil {
		change(o)
	}
	db, err := lsm.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		want = map[string][]byte{}
	}
	return &database{db, t, fsys, want}
}

// valueOf makes a value of n bytes that no other seed has.
func valueOf(seed, n int) []byte {
	v := []byte(fmt.Sprintf("%08d ", seed))
	for len(v) < n {
		v = append(v, byte(seed*31+len(v)*7+len(v)>>8))
	}
	return v[:n]
}

func (d *database) put(key string, value []byte) {
	d.t.Helper()
	d.must(d.Put([]byte(key), value, lsm.NoSync))
	d.want[key] = value
}

func (d *database) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// emptying are options with which a compaction copies the values of each log that has garbage.
func emptying(o *lsm.Options) {
	o.L0Compaction, o.WriteBufferSize, o.MaxSpaceAmplification = 1, 64<<10, 1
}

// churn writes logs of which each has a value that stays among many that are overwritten.
func (d *database) churn() {
	d.t.Helper()
	for i := range 40 {
		d.put(fmt.Sprintf("stays %02d", i), valueOf(400+i, 1000))
		for j := range 8 {
			d.put(fmt.Sprintf("churn %d", j), valueOf(1000+8*i+j, 7000))
		}
	}
	d.must(d.Flush())
}

// relocate compacts until values of churn lie in value files. The database was opened with
// emptying.
func (d *database) relocate() {
	d.t.Helper()
	for i := range 5 {
		d.must(d.CompactRange(nil, nil))
		if d.Metrics().Values.Files > 0 {
			return
		}
		d.put("churn 0", valueOf(900+i, 7000))
		d.must(d.Flush())
	}
	d.t.Fatalf("no value was relocated: %+v", d.Metrics().Values)
}

// sizes are lengths of values around the bounds of blocks, chunks and large values.
var sizes = []int{0, 1, least - 1, least, 1000, 32<<10 - 19, 32 << 10, 100_000, 300_000}

// fill puts a value of each size, flushed.
func (d *database) fill(seed int) {
	d.t.Helper()
	for i, n := range sizes {
		d.put(fmt.Sprintf("key %02d", i), valueOf(seed+i, n))
	}
	d.must(d.Flush())
}

// reader is a database, or a snapshot of one.
type reader interface {
	Get(key, dst []byte) ([]byte, error)
	GetPinned(key []byte, v *lsm.PinnedValue) error
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte, r *lsm.MultiResult) error
	Iter(o *lsm.IterOptions) *lsm.Iterator
}

// check reads everything in every way.
func check(t testing.TB, r reader, want map[string][]byte) {
	t.Helper()
	var keys [][]byte
	for key, value := range want {
		got, err := r.Get([]byte(key), []byte("before "))
		if err != nil || !bytes.Equal(got, append([]byte("before "), value...)) {
			t.Errorf("Get %s: %d bytes, %v; want %d", key, len(got), err, len(value))
		}
		if has, err := r.Has([]byte(key)); !has || err != nil {
			t.Errorf("Has %s: %v %v", key, has, err)
		}
		var pinned lsm.PinnedValue
		if err := r.GetPinned([]byte(key), &pinned); err != nil || !bytes.Equal(pinned.Bytes(),
			value) {
			t.Errorf("GetPinned %s: %d bytes, %v; want %d", key, len(pinned.Bytes()), err,
				len(value))
		}
		pinned.Release()
		keys = append(keys, []byte(key))
	}
	keys = append(keys, []byte("missing"))
	var m lsm.MultiResult
	if err := r.MultiGet(keys, &m); err != nil {
		t.Error("MultiGet:", err)
		return
	}
	for i, key := range keys {
		value, there := want[string(key)]
		if got, found := m.Value(i); found != there || !bytes.Equal(got, value) {
			t.Errorf("MultiGet %s: %d bytes, %v; want %d", key, len(got), found, len(value))
		}
	}
	walk(t, r, want, false)
	walk(t, r, want, true)
}

// walk goes over all keys forward and back.
func walk(t testing.TB, r reader, want map[string][]byte, keysOnly bool) {
	t.Helper()
	it := r.Iter(&lsm.IterOptions{KeysOnly: keysOnly})
	defer it.Close()
	seen := 0
	one := func() {
		t.Helper()
		seen++
		value, ok := want[string(it.Key())]
		if keysOnly {
			value = nil
		}
		if !ok || !bytes.Equal(it.Value(), value) {
			t.Errorf("iterator at %s: %d bytes, want %d", it.Key(), len(it.Value()), len(value))
		}
	}
	for ok := it.First(); ok; ok = it.Next() {
		one()
	}
	if it.Err() != nil || seen != len(want) {
		t.Errorf("forward: %d keys of %d, %v", seen, len(want), it.Err())
	}
	seen = 0
	for ok := it.Last(); ok; ok = it.Prev() {
		one()
	}
	if it.Err() != nil || seen != len(want) {
		t.Errorf("backward: %d keys of %d, %v", seen, len(want), it.Err())
	}
}

// logs lists the logs of a directory.
func logs(t testing.TB, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	all, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasSuffix(name, ".wal") {
			names = append(names, name)
		}
	}
	return names
}

// isCorruption reports whether err names a file of this kind, and where in it.
func isCorruption(err error, ext string) bool {
	var c *lsm.CorruptionError
	return errors.As(err, &c) && filepath.Ext(c.File) == ext && c.Offset >= 0
}
