package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
)

// rangeKey is key i of the tests of range deletes.
func rangeKey(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }

// openRanges opens a native database with keys 0 to n-1.
func openRanges(t *testing.T, o *Options, n int) *DB {
	t.Helper()
	o.FS, o.Format = vfs.NewMem(), FormatNative
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b := NewBatch()
	for i := range n {
		b.Put(rangeKey(i), []byte("value"))
		if b.Count() == 1000 || i == n-1 {
			if err := db.Write(b, NoSync); err != nil {
				t.Fatal(err)
			}
			b.Clear()
		}
	}
	return db
}

// wantCount wants so many keys, forward and backward.
func wantCount(t *testing.T, db *DB, when string, want int) {
	t.Helper()
	it := db.Iter(nil)
	forward, back := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		forward++
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		back++
	}
	if err := it.Close(); err != nil || forward != want || back != want {
		t.Errorf("%s: %d keys forward, %d back, %v; want %d", when, forward, back, err, want)
	}
}

func TestDeleteRange(t *testing.T) {
	db := openRanges(t, &Options{}, 1000)
	snap := db.Snapshot()
	if err := db.DeleteRange(rangeKey(100), rangeKey(900), NoSync); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		wantCount(t, db, when, 200)
		for _, i := range []int{100, 500, 899} {
			if _, err := db.Get(rangeKey(i), nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: key %d: %v", when, i, err)
			}
		}
		for _, i := range []int{99, 900} {
			if v, err := db.Get(rangeKey(i), nil); string(v) != "value" {
				t.Errorf("%s: key %d: %v", when, i, err)
			}
		}
	}
	check("in the memtable")
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	check("flushed with a snapshot")
	if v, err := snap.Get(rangeKey(500), nil); string(v) != "value" {
		t.Error(err)
	}
	snap.Close()
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	check("compacted")
}

func TestDeleteRangeRefuses(t *testing.T) {
	db := openRanges(t, &Options{}, 10)
	if err := db.DeleteRange([]byte("b"), []byte("a"),
		NoSync); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("behind its limit: %v", err)
	}
	b := NewBatch()
	b.DeleteRange([]byte("b"), []byte("a"))
	if err := db.Write(b, NoSync); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("behind its limit in a batch: %v", err)
	}
	if err := b.Each(func(k, v []byte) error {
		return nil
	}, func(k []byte) error { return nil }); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Each: %v", err)
	}
	if err := db.DeleteRange(rangeKey(3), rangeKey(3), NoSync); err != nil {
		t.Error(err)
	}
	ks, err := db.Keyspace("reverse", &KeyspaceOptions{Comparer: ReverseBytewiseComparer})
	if err != nil {
		t.Fatal(err)
	}
	b.Clear()
	b.In(ks).DeleteRange([]byte("b"), []byte("a"))
	b.DeleteRange([]byte("a"), []byte("b"))
	if err := db.Write(b, NoSync); err != nil {
		t.Errorf("in the orders of two keyspaces: %v", err)
	}
	if err := ks.DeleteRange([]byte("a"), []byte("b"),
		NoSync); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("behind its limit in the reverse order: %v", err)
	}
	wantCount(t, db, "afterwards", 10)

	old, err := Open("old", &Options{FS: vfs.NewMem(), Format: FormatLevelDB})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	b.Clear()
	b.Put([]byte("k"), nil)
	b.DeleteRange([]byte("a"), []byte("b"))
	for _, err := range []error{old.DeleteRange([]byte("a"), []byte("b"), NoSync),
		old.Write(b, NoSync)} {
		if !errors.Is(err, ErrNeedsNative) {
			t.Errorf("in LevelDB's format: %v", err)
		}
	}
}

// TestDeleteRangeFreesSpace deletes what many tables have; nobody flushes or compacts.
func TestDeleteRangeFreesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openRanges(t, &Options{WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
			Compression: NoCompression}, 40_000)
		if err := db.CompactRange(nil, nil); err != nil {
			t.Fatal(err)
		}
		before := sizeOf(t, db)
		snap := db.Snapshot()
		if err := db.DeleteRange(rangeKey(10), rangeKey(39_990), NoSync); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
		if now := sizeOf(t, db); now < before*9/10 {
			t.Errorf("%d of %d bytes are left, a snapshot needs all", now, before)
		}
		n := 0
		it := db.Iter(&IterOptions{Snapshot: snap})
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		if err := it.Close(); err != nil || n != 40_000 {
			t.Errorf("%d keys in the snapshot, %v", n, err)
		}
		snap.Close()
		if err := db.DeleteRange(rangeKey(10), rangeKey(39_990), NoSync); err != nil {
			t.Fatal(err)
		}
		waitForDrop(t, db, before)
		wantCount(t, db, "afterwards", 20)
	})
}

// TestDeleteRangeWhilePaused: what a range delete covers goes when automatic compaction is resumed.
func TestDeleteRangeWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openRanges(t, &Options{WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
			Compression: NoCompression, DisableCompaction: true}, 10_000)
		if err := db.CompactRange(nil, nil); err != nil {
			t.Fatal(err)
		}
		before := sizeOf(t, db)
		if err := db.DeleteRange(rangeKey(10), rangeKey(9_990), NoSync); err != nil {
			t.Fatal(err)
		}
		db.ResumeCompaction()
		waitForDrop(t, db, before)
		wantCount(t, db, "afterwards", 20)
	})
}

// sizeOf is about how large all tables of a database are.
func sizeOf(t *testing.T, db *DB) uint64 {
	t.Helper()
	n, err := db.ApproximateSizes([]Range{{}})
	if err != nil {
		t.Fatal(err)
	}
	return n[0]
}

// waitForDrop waits until a range delete has freed most of so many bytes. It is called in a bubble.
func waitForDrop(t *testing.T, db *DB, before uint64) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if sizeOf(t, db) > before/4 {
		t.Fatalf("%d of %d bytes are left: %s", sizeOf(t, db), before,
			fmt.Sprint(db.Property("loam.sstables")))
	}
	if dropped := db.Metrics().Compact.TablesDropped; dropped == 0 {
		t.Error("no table was dropped without being read")
	}
}

// TestDeleteRangeIsJumped counts what an iterator reads of a range that was deleted: no more
// blocks than of one that is empty.
func TestDeleteRangeIsJumped(t *testing.T) {
	db := openRanges(t, &Options{DisableCompaction: true, BlockSize: 1 << 10}, 50_000)
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteRange(rangeKey(5), rangeKey(49_995), NoSync); err != nil {
		t.Fatal(err)
	}
	for _, flushed := range []bool{false, true} {
		if flushed {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		before := db.Metrics()
		wantCount(t, db, "deleted", 10)
		after := db.Metrics()
		if blocks := after.Cache.Hits + after.Cache.Misses - before.Cache.Hits -
			before.Cache.Misses; blocks > 20 {
			t.Errorf("flushed %v: two scans of 10 keys looked at %d blocks", flushed, blocks)
		}
	}
}

// TestSeekOverManyRangeDels counts the comparisons of moves over tombstones that touch each other,
// in a memtable above a table: the logarithm of their number, for snapshots too.
func TestSeekOverManyRangeDels(t *testing.T) {
	needsNative(t)
	const n = 10_000
	var calls atomic.Int64
	counting := *BytewiseComparer
	counting.Compare = func(a, b []byte) int {
		calls.Add(1)
		return bytes.Compare(a, b)
	}
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: &counting,
		DisableCompaction: true})
	defer mustClose(t, db)
	if err := db.Put([]byte("a"), nil, NoSync); err != nil {
		t.Fatal(err)
	}
	putKeys(t, db, n)
	mustFlush(t, db)
	var half *Snapshot
	for i := range n {
		if i == n/2 {
			half = db.Snapshot()
			defer half.Close()
		}
		if err := db.DeleteRange(key(i), key(i+1), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Put([]byte("z"), nil, NoSync); err != nil {
		t.Fatal(err)
	}
	few := func(what string, move func(it *Iterator) bool,
		r interface{ Iter(*IterOptions) *Iterator }, want string) {
		t.Helper()
		for i := range 2 { // the first one fragments the tombstones
			calls.Store(0)
			it := r.Iter(nil)
			if !move(it) || string(it.Key()) != want {
				t.Errorf("%s: at %q, want %q", what, it.Key(), want)
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
			if n := calls.Load(); i > 0 && n > 500 {
				t.Errorf("%s: %d comparisons", what, n)
			}
		}
	}
	few("SeekGE", func(it *Iterator) bool { return it.SeekGE(key(0)) }, db, "z")
	few("SeekLT", func(it *Iterator) bool { return it.SeekLT([]byte("z")) }, db, "a")
	few("SeekGE of a snapshot", func(it *Iterator) bool {
		return it.SeekGE(key(0))
	}, half, string(key(n/2)))
	few("Prev of a snapshot", func(it *Iterator) bool {
		return it.SeekGE(key(n/2)) && it.Prev()
	}, half, "a")
}

// TestRangeDeletesBesideAPanic has the comparer panic at each of its calls in range deletes, alone
// and in batches: no call panics, and what one deletes that returns nil stays deleted.
func TestRangeDeletesBesideAPanic(t *testing.T) {
	var left atomic.Int64 // calls until the panic; 0 or less: none
	o := &Options{Comparer: &Comparer{Name: "moody", Compare: func(a, b []byte) int {
		if left.Add(-1) == 0 {
			panic("no order today")
		}
		return bytes.Compare(a, b)
	}}, DisableCompaction: true}
	for name, call := range map[string]func(db *DB) error{
		"alone": func(db *DB) error { return db.DeleteRange(key(0), key(20), Sync) },
		"in a batch": func(db *DB) error {
			b := NewBatch()
			b.DeleteRange(key(0), key(20))
			return db.Write(b, Sync)
		},
	} {
		for at, reached := int64(1), true; reached; at++ {
			o.FS = vfs.NewMem()
			db := mustOpen(t, "db", o)
			putKeys(t, db, 20)
			mustFlush(t, db)
			left.Store(at)
			err := call(db)
			reached = left.Swap(0) <= 0
			_ = db.Close()
			db = mustOpen(t, "db", o)
			for i := range 20 {
				if v, gerr := db.Get(key(i), nil); err == nil && !errors.Is(gerr, ErrNotFound) {
					t.Errorf("%s, call %d: key %d is %q, %v", name, at, i, v, gerr)
				}
			}
			mustClose(t, db)
		}
	}
}
