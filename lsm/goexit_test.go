package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestCallbacksThatEndTheirGoroutine: a callback that calls runtime.Goexit, as FailNow of a test
// does, ends writing as a panic does, and neither the flush nor the compaction stays under way.
func TestCallbacksThatEndTheirGoroutine(t *testing.T) {
	needsNative(t)
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"flush", "compaction"} {
			fsys, ends := vfs.NewMem(), false
			end := func() {
				if ends {
					runtime.Goexit()
				}
			}
			o := &Options{FS: fsys, DisableCompaction: true,
				MergeOperator: &MergeOperator{Name: "ends", Full: func(dst, _, existing []byte,
					operands [][]byte) ([]byte, error) {
					end()
					return append(append(dst, existing...), operands[0]...), nil
				}},
				CompactionFilter: &CompactionFilter{Name: "ends", Filter: func(int, []byte,
					[]byte) (FilterDecision, error) {
					end()
					return FilterKeep, nil
				}}}
			db := mustOpen(t, "db", o)
			if err := errors.Join(db.Put([]byte("a"), []byte("1"), NoSync),
				db.Merge([]byte("a"), []byte("2"), NoSync)); err != nil {
				t.Fatal(err)
			}
			call := db.Flush
			if name == "compaction" {
				mustFlush(t, db)
				call = func() error { return db.CompactRange(nil, nil) }
			}
			ends = true
			if err := call(); err == nil || !strings.Contains(err.Error(), "Goexit") {
				t.Errorf("%s: %v", name, err)
			}
			if err := db.Put([]byte("b"), nil, NoSync); !errors.Is(err, ErrReadOnly) {
				t.Errorf("a write after the %s: %v", name, err)
			}
			_ = db.Close()
			ends = false
			db = mustOpen(t, "db", o)
			if got, err := db.Get([]byte("a"), nil); err != nil || string(got) != "12" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestComparerThatEndsItsGoroutine: a bulk load or an ingest whose comparer calls runtime.Goexit,
// on whichever goroutine, fails or ends with its caller: it is never done without a part of its
// entries. Nothing stays under way.
func TestComparerThatEndsItsGoroutine(t *testing.T) {
	needsNative(t)
	const entries = 3000
	for _, name := range []string{"load", "build", "ingest"} {
		failed := 0
		for at := int64(1); at < 20_000; at = at*3/2 + 1 {
			var left atomic.Int64
			o := &Options{FS: vfs.NewMem(), DisableCompaction: true,
				Comparer: endingComparer(&left)}
			db := mustOpen(t, "db", o)
			ended := errors.New("the goroutine of the call ended")
			err := ended
			var wg sync.WaitGroup
			wg.Go(func() {
				switch name {
				case "ingest":
					err = ingestOne(t, db, o, entries, func() { left.Store(at) })
				case "load":
					left.Store(at)
					err = loadAll(db, entries, func() {})
				default:
					err = loadAll(db, entries, func() { left.Store(at) })
				}
			})
			wg.Wait()
			reached := left.Swap(0) <= 0 // two comparisons may have counted at once
			if reached != (err != nil) {
				t.Errorf("%s, comparison %d: reached: %t, %v", name, at, reached, err)
			}
			if err != nil && err != ended {
				failed++
				if !strings.Contains(err.Error(), "Goexit") {
					t.Errorf("%s, comparison %d: %v", name, at, err)
				}
			}
			want := 0
			if err == nil {
				want = entries
			}
			if n := countKeys(t, db); n != want {
				t.Errorf("%s, comparison %d: %d keys", name, at, n)
			}
			_ = db.Close()
		}
		if failed == 0 {
			t.Errorf("%s: the comparer ended no goroutine but that of the call", name)
		}
	}
}

// endingComparer is bytewise, and ends the goroutine of the comparison that has left become 0.
func endingComparer(left *atomic.Int64) *Comparer {
	return &Comparer{Name: "ends", Compare: func(a, b []byte) int {
		if left.Load() > 0 && left.Add(-1) == 0 {
			runtime.Goexit()
		}
		return bytes.Compare(a, b)
	}}
}

// loadAll loads entries, in an order that is not that of their keys. before is called before the
// end of the load.
func loadAll(db *DB, entries int, before func()) error {
	l, err := db.BulkLoader(&BulkLoadOptions{Memory: 32 << 10})
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range entries {
		if err := l.Put(fmt.Appendf(nil, "%08d", i*7919%entries), nil); err != nil {
			return err
		}
	}
	before()
	return l.Finish(context.Background())
}

// ingestOne ingests a table of entries. before is called before that.
func ingestOne(t *testing.T, db *DB, o *Options, entries int, before func()) error {
	var pairs []string
	for i := range entries {
		pairs = append(pairs, fmt.Sprintf("%08d", i), "")
	}
	table := writeTable(t, "table", o, pairs...)
	before()
	return db.Ingest(context.Background(), nil, table)
}

// TestComparerThatEndsAReader: after a comparer has ended the goroutine of a reader, further reads
// of the memtable show what was written, or fail. Nothing is left of the memory of the database.
func TestComparerThatEndsAReader(t *testing.T) {
	needsNative(t)
	const keys = 40
	failed, before := 0, offheap.InUse()
	for at := int64(1); ; at++ {
		var left atomic.Int64
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem(),
			Comparer: endingComparer(&left),
			MergeOperator: &MergeOperator{Name: "append", Full: func(dst, _, existing []byte,
				operands [][]byte) ([]byte, error) {
				return append(append(dst, existing...), bytes.Join(operands, nil)...), nil
			}}})
		for i := range 2 * keys {
			key := fmt.Appendf(nil, "%02d", i*7%keys)
			if err := db.Merge(key, []byte("x"), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		read := func() (n int, err error) {
			for _, v := range db.All(nil, nil, &err) {
				n++
				if string(v) != "xx" {
					t.Errorf("comparison %d: %q", at, v)
				}
			}
			return n, err
		}
		left.Store(at)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = read() })
		wg.Wait()
		reached := left.Swap(0) <= 0 // two comparisons may have counted at once
		n, err := read()
		switch {
		case err != nil:
			failed++
		case n != keys:
			t.Errorf("comparison %d: %d keys", at, n)
		}
		_ = db.Close()
		if !reached {
			drained(t, db, before)
			break
		}
	}
	if failed == 0 {
		t.Error("no order was left half made")
	}
}

// TestComparerThatEndsAWriter: where a comparer ends its goroutine while a write has the lead, or
// while a compaction is chosen, the call fails or is done, and no other call waits for it.
func TestComparerThatEndsAWriter(t *testing.T) {
	needsNative(t)
	calls := map[string]func(db *DB, tx *Txn) error{
		"range delete": func(db *DB, _ *Txn) error {
			return db.DeleteRange([]byte("01"), []byte("02"), NoSync)
		},
		"commit": func(_ *DB, tx *Txn) error { return tx.Commit(NoSync) },
		"flush":  func(db *DB, _ *Txn) error { return db.Flush() },
		"drop":   func(db *DB, _ *Txn) error { return db.DropKeyspace("other") },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			failed := 0
			reached := true
			for at := int64(1); reached; at = at*9/8 + 1 {
				synctest.Test(t, func(t *testing.T) {
					var err error
					if reached, err = endsAt(t, at, call); err != nil {
						failed++
					}
				})
			}
			if failed == 0 && (name == "range delete" || name == "flush") {
				t.Error("the comparer ended no goroutine but that of the call")
			}
		})
	}
}

// endsAt makes a call whose nth comparison ends its goroutine, and uses the database behind it.
// reached is false where there were not so many.
func endsAt(t *testing.T, n int64, call func(*DB, *Txn) error) (reached bool, err error) {
	var left atomic.Int64
	o := &Options{FS: vfs.NewMem(), L0Compaction: 2,
		Comparer: endingComparer(&left)}
	db := mustOpen(t, "db", o)
	if _, err := db.Keyspace("other", nil); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := db.Put(fmt.Appendf(nil, "%02d", i), []byte("x"), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	mustFlush(t, db)
	tx := db.Begin(nil)
	defer tx.Close()
	if _, err := tx.Get([]byte("02"), nil); err != nil {
		t.Fatal(err)
	}
	if err := tx.Put([]byte("03"), []byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := db.Put([]byte("01"), []byte("z"), NoSync); err != nil {
		t.Fatal(err)
	}
	left.Store(n)
	var wg sync.WaitGroup
	wg.Go(func() { err = call(db, tx) })
	wg.Wait()
	_ = db.Put([]byte("00"), []byte("0"), NoSync) // read-only or not, it returns
	_ = db.CompactRange(nil, nil)
	reached = left.Swap(0) <= 0
	_ = db.Close()
	db = mustOpen(t, "db", o)
	defer mustClose(t, db)
	for i := range 4 {
		key := fmt.Appendf(nil, "%02d", i)
		if _, err := db.Get(key, nil); err != nil && (i != 1 || !errors.Is(err, ErrNotFound)) {
			t.Errorf("comparison %d: %s: %v", n, key, err)
		}
	}
	return reached, err
}

// TestComparerThatEndsAPutAmongDeletions: where a comparer ends its goroutine while a write looks
// for its key in ranges that iterators found empty, the write fails, and no other one waits for it.
func TestComparerThatEndsAPutAmongDeletions(t *testing.T) {
	needsNative(t)
	failed := 0
	for _, spaces := range []int{1, 2} { // that the write is to
		reached := true
		for at := int64(1); reached; at++ {
			synctest.Test(t, func(t *testing.T) {
				var err error
				if reached, err = endsPutAt(t, at, spaces); err != nil {
					failed++
				}
			})
		}
	}
	if failed < 2 {
		t.Errorf("%d writes failed", failed)
	}
}

// endsPutAt has the nth comparison of a write among deletions end its goroutine.
func endsPutAt(t *testing.T, n int64, spaces int) (reached bool, err error) {
	var left atomic.Int64
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(),
		Comparer: endingComparer(&left)})
	defer func() { _ = db.Close() }()
	b := db.NewBatch()
	b.Put(key(100), nil)
	if spaces > 1 {
		other, err := db.Keyspace("other", nil)
		if err != nil {
			t.Fatal(err)
		}
		b.In(other).Put(nil, nil)
	}
	for i := range 200 {
		must(t, db.Delete(key(i), NoSync))
	}
	it := db.Iter(nil)
	it.First() // it learns that there is nothing
	must(t, it.Close())
	var wg sync.WaitGroup
	left.Store(n)
	err = errors.New("the goroutine of the write ended")
	wg.Go(func() { err = db.Write(b, NoSync) })
	wg.Wait()
	reached = left.Swap(0) <= 0
	if err == nil { // reached: in the background
		_, err := db.Get(key(100), nil)
		must(t, err)
	} else if !reached || !errors.Is(err, ErrReadOnly) {
		t.Errorf("comparison %d: %v", n, err)
	}
	_ = db.Put(key(101), nil, NoSync) // read-only or not, it returns
	return reached, err
}

// TestFileSystemThatEndsItsGoroutine: a file system that calls runtime.Goexit in any call of an
// open database, on the goroutine of a call or in the background, holds nothing up: every other
// call returns, Close included, and what was acknowledged is there at the next opening.
func TestFileSystemThatEndsItsGoroutine(t *testing.T) {
	needsNative(t)
	for at := int64(0); ; at += int64(seed.Scale(31, 7, 1)) {
		var calls int64
		synctest.Test(t, func(t *testing.T) { calls = lifeWithGoexit(t, at) })
		if t.Failed() {
			t.Fatalf("call %d", at)
		}
		if at >= calls {
			return
		}
	}
}

// lifeWithGoexit is a life of a database whose file system ends its goroutine in the at-th call. It
// returns how many calls there were.
func lifeWithGoexit(t *testing.T, at int64) int64 {
	var calls atomic.Int64
	var closing atomic.Bool
	mem := vfs.NewMem()
	closing.Store(true)
	db := mustOpen(t, "db", &Options{LargeValue: 2000, WriteBufferSize: 64 << 10,
		MaxFileSize: 64 << 10, MaxMemtables: 2, L0Compaction: 2,
		FS: vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if !closing.Load() && calls.Add(1)-1 == at {
				runtime.Goexit()
			}
			return vfs.Outcome{}
		})})
	closing.Store(false)
	var acked [][]byte
	call := func(f func() error) (err error) {
		err = errors.New("the goroutine of the call ended")
		var wg sync.WaitGroup
		wg.Go(func() { err = f() })
		wg.Wait() // for ever if it hangs: then the bubble fails
		return err
	}
	written := 0
	write := func(n, size int) {
		for range n {
			written++
			key := fmt.Appendf(nil, "%06d", written)
			if call(func() error {
				return db.Put(key, make([]byte, size), WriteMode(written%7/6))
			}) == nil {
				acked = append(acked, key)
			}
		}
	}
	write(30, 3000)
	_ = call(db.Flush)
	write(60, 1000)
	_ = call(db.Flush)
	_ = call(func() error { return db.Checkpoint(context.Background(), "copy") })
	_ = call(func() error {
		k, err := db.Keyspace("other", nil)
		if err != nil {
			return err
		}
		return errors.Join(k.Put([]byte("k"), nil, Sync), db.DropKeyspace("other"))
	})
	_ = call(func() error {
		return db.Update(context.Background(), func(tx *Txn) error {
			return tx.Delete([]byte("x"))
		})
	})
	_ = call(func() error {
		feed, err := db.Changes(0, nil)
		if err != nil {
			return err
		}
		defer feed.Close()
		for ok := true; ok && err == nil; {
			_, ok, err = feed.TryNext()
		}
		return err
	})
	_ = call(func() error {
		it := db.Iter(nil)
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
		}
		return it.Err()
	})
	_ = call(func() error { return db.CompactRange(nil, nil) })
	write(5, 1000)
	_ = db.Metrics()
	closing.Store(true)
	_ = db.Close()
	db = mustOpen(t, "db", &Options{FS: mem.Clone()})
	defer db.Close()
	for _, key := range acked {
		if ok, err := db.Has(key); !ok || err != nil {
			t.Errorf("call %d: %s, which was acknowledged: %v, %v", at, key, ok, err)
		}
	}
	return calls.Load()
}
