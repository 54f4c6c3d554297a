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

	"github.com/loamdb/loam/internal/os/vfs"
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
			compare := func(a, b []byte) int {
				if left.Load() > 0 && left.Add(-1) == 0 {
					runtime.Goexit()
				}
				return bytes.Compare(a, b)
			}
			o := &Options{FS: vfs.NewMem(), DisableCompaction: true,
				Comparer: &Comparer{Name: "ends", Compare: compare}}
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
// of the memtable show what was written, or fail.
func TestComparerThatEndsAReader(t *testing.T) {
	needsNative(t)
	const keys = 40
	failed := 0
	for at := int64(1); ; at++ {
		var left atomic.Int64
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem(),
			Comparer: &Comparer{Name: "ends", Compare: func(a, b []byte) int {
				if left.Load() > 0 && left.Add(-1) == 0 {
					runtime.Goexit()
				}
				return bytes.Compare(a, b)
			}},
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
			break
		}
	}
	if failed == 0 {
		t.Error("no order was left half made")
	}
}
