package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// wantPinned reads a key by GetPinned and compares the value.
func wantPinned(t *testing.T, r interface {
	GetPinned(key []byte, v *PinnedValue) error
}, v *PinnedValue, key, want []byte) {
	t.Helper()
	if err := r.GetPinned(key, v); err != nil || !bytes.Equal(v.Bytes(), want) || v.Bytes() == nil {
		t.Errorf("%q is %.40q, %v; want %.40q", key, v.Bytes(), err, want)
	}
}

// drained wants at most 512 KiB more off the heap than before once what was retired is freed. The
// formats keep buffers of reads while any table of the process is open, also another test's.
func drained(t *testing.T, db *DB, before int64) {
	t.Helper()
	for range 2 { // the views, and what they retire
		db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	}
	if n := offheap.InUse() - before; n > 512<<10 {
		t.Errorf("%d bytes are left off the heap", n)
	}
}

// TestGetPinned reads values out of memtables, cached and other blocks, and such as are made.
func TestGetPinned(t *testing.T) {
	o := &Options{FS: vfs.NewMem(), Format: FormatNative,
		MergeOperator: MergeOperatorNamed("append")}
	db := mustOpen(t, "db", o)
	var v PinnedValue
	defer v.Release()
	v.Release() // of nothing
	if v.Bytes() != nil || v.Copied() {
		t.Errorf("the zero value has %q, %v", v.Bytes(), v.Copied())
	}
	large := bytes.Repeat([]byte("large"), 50000)
	for _, err := range []error{
		db.Put([]byte("large"), large, NoSync),
		db.Put([]byte("empty"), nil, NoSync),
		db.Put([]byte("gone"), []byte("x"), NoSync),
		db.Delete([]byte("gone"), NoSync),
		db.PutTTL([]byte("expires"), []byte("later"), time.Hour, NoSync),
		db.Put([]byte("folded"), []byte("a"), NoSync),
		db.Merge([]byte("folded"), []byte("b"), NoSync),
		db.Put([]byte("ranged"), []byte("x"), NoSync),
		db.DeleteRange([]byte("r"), []byte("s"), NoSync),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(where string, copied bool) {
		t.Helper()
		for _, c := range []struct {
			key    string
			want   []byte
			copied bool
		}{{"large", large, copied}, {"empty", []byte{}, copied},
			{"expires", []byte("later"), copied}, {"folded", []byte("a,b"), true}} {
			if c.key == "folded" && where == "cached" {
				c.copied = v.Copied() // a flush may have folded it
			}
			wantPinned(t, db, &v, []byte(c.key), c.want)
			if c.key != "folded" && v.Copied() != c.copied {
				t.Errorf("%s: %s is copied: %v", where, c.key, v.Copied())
			}
		}
		for _, key := range []string{"gone", "ranged", "never"} {
			if err := db.GetPinned([]byte(key), &v); !errors.Is(err, ErrNotFound) ||
				v.Bytes() != nil || v.Copied() {
				t.Errorf("%s: %s is %q, %v", where, key, v.Bytes(), err)
			}
		}
	}
	read("memtable", false)
	mustFlush(t, db)
	mustClose(t, db)
	db = mustOpen(t, "db", o)
	for _, key := range []string{"large", "expires", "empty"} {
		wantPinned(t, db, &v, []byte(key), map[string][]byte{"large": large,
			"expires": []byte("later"), "empty": {}}[key])
	}
	read("cached", false)
	gets := db.Metrics().Gets.Count
	wantPinned(t, db, &v, []byte("large"), large)
	if n := db.Metrics().Gets.Count; n != gets+1 {
		t.Errorf("%d Gets are counted, want %d", n, gets+1)
	}
	if err := db.GetPinned([]byte("large"), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	mustClose(t, db)
	if err := db.GetPinned([]byte("large"), &v); !errors.Is(err, ErrClosed) || v.Bytes() != nil {
		t.Errorf("of a closed database: %.40q, %v", v.Bytes(), err)
	}
}

// TestGetPinnedAllocates: with a PinnedValue that is used again, nothing.
func TestGetPinnedAllocates(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	mustPut(t, db, 1)
	mustFlush(t, db)
	mustPut(t, db, 2)
	var v PinnedValue
	defer v.Release()
	for _, i := range []int{1, 2} {
		want := value(i)
		key := key(i)
		if n := testing.AllocsPerRun(100, func() { wantPinned(t, db, &v, key, want) }); n != 0 {
			t.Errorf("value %d: %v allocations", i, n)
		}
	}
}

// TestPinnedValueKeepsMemory: a value stays readable through writes, flushes, compactions,
// evictions, a drop of its keyspace and Close, and all memory goes with the last Release.
func TestPinnedValueKeepsMemory(t *testing.T) {
	before := offheap.InUse()
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem(), Format: FormatNative}))
	space, err := db.Keyspace("space", nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	big := func(i, version int) []byte {
		return bytes.Repeat(fmt.Appendf(nil, "%d of %d.", i, version), 2000)
	}
	fill := func(version int) {
		t.Helper()
		for i := range n {
			if err := errors.Join(db.Put(key(i), big(i, version), NoSync),
				space.Put(key(i), big(i, version), NoSync)); err != nil {
				t.Fatal(err)
			}
		}
	}
	snap := db.Snapshot()
	tx := db.Begin(nil)
	var values [6 * n]PinnedValue
	for version := range 3 {
		fill(version)
		if version == 1 {
			mustFlush(t, db)
			if err := errors.Join(db.CompactRange(nil, nil), space.CompactRange(nil,
				nil)); err != nil {
				t.Fatal(err)
			}
			var first PinnedValue // puts the blocks into the cache
			for i := range n {
				wantPinned(t, db, &first, key(i), big(i, version))
				wantPinned(t, space, &first, key(i), big(i, version))
			}
			first.Release()
		}
		for i := range n {
			wantPinned(t, db, &values[2*(n*version+i)], key(i), big(i, version))
			wantPinned(t, space, &values[2*(n*version+i)+1], key(i), big(i, version))
		}
	}
	check := func(when string) {
		t.Helper()
		for i := range values {
			if want := big(i/2%n, i/2/n); !bytes.Equal(values[i].Bytes(), want) {
				t.Fatalf("%s: value %d is %.40q, want %.40q", when, i, values[i].Bytes(), want)
			}
		}
	}
	check("read")
	fill(3)
	mustFlush(t, db)
	if err := errors.Join(db.CompactRange(nil, nil), space.CompactRange(nil, nil)); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 { // evicts what is not pinned
		if _, err := db.Get(key(i%n), nil); err != nil {
			t.Fatal(err)
		}
	}
	check("compacted")
	if err := errors.Join(db.DropKeyspace("space"), snap.Close(), tx.Rollback()); err != nil {
		t.Fatal(err)
	}
	check("dropped")
	mustClose(t, db)
	check("closed")
	if n := offheap.InUse() - before; n < 768<<10 {
		t.Errorf("%d bytes are off the heap while values are pinned", n)
	}
	for i := range values {
		values[i].Release()
		values[i].Release() // harmless
	}
	drained(t, db, before)
}

// TestPinnedValueInCallback: a value is pinned while a merge operator reads, which releases and
// reads others, and one outlives a callback's panic.
func TestPinnedValueInCallback(t *testing.T) {
	var db *DB
	var inner PinnedValue
	defer inner.Release()
	op := &MergeOperator{Name: "reads", Full: func(dst, _, _ []byte,
		operands [][]byte) ([]byte, error) {
		if string(operands[0]) == "panic" {
			panic("planned")
		}
		if err := db.GetPinned([]byte("plain"), &inner); err != nil {
			return nil, err
		}
		return append(dst, inner.Bytes()...), nil
	}}
	db = mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative, MergeOperator: op})
	if err := errors.Join(db.Put([]byte("plain"), []byte("value"), NoSync),
		db.Merge([]byte("reading"), []byte("read"), NoSync),
		db.Merge([]byte("failing"), []byte("panic"), NoSync)); err != nil {
		t.Fatal(err)
	}
	var v, kept PinnedValue
	defer v.Release()
	defer kept.Release()
	wantPinned(t, db, &kept, []byte("plain"), []byte("value"))
	wantPinned(t, db, &v, []byte("reading"), []byte("value"))
	if err := db.GetPinned([]byte("failing"), &v); !errors.Is(err, ErrMergeFailed) ||
		v.Bytes() != nil {
		t.Errorf("%q, %v", v.Bytes(), err)
	}
	if string(kept.Bytes()) != "value" {
		t.Errorf("the value has become %q", kept.Bytes())
	}
	_ = db.Close() // its flush meets the panic
	if string(kept.Bytes()) != "value" || string(inner.Bytes()) != "value" {
		t.Errorf("the values have become %q, %q", kept.Bytes(), inner.Bytes())
	}
}

// TestPinnedComparerPanic: a panic of the comparer is the error of the read, pins nothing, and the
// memory goes with Close.
func TestPinnedComparerPanic(t *testing.T) {
	before := offheap.InUse()
	var armed atomic.Bool
	cmp := &Comparer{Name: "panics", Compare: func(a, b []byte) int {
		if armed.Load() {
			panic("planned")
		}
		return bytes.Compare(a, b)
	}}
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: cmp})
	putKeys(t, db, 100)
	mustFlush(t, db)
	var v PinnedValue
	for range 2 { // the second time out of the cache
		wantPinned(t, db, &v, key(50), value(50))
	}
	armed.Store(true)
	if err := db.GetPinned(key(50), &v); err == nil || v.Bytes() != nil {
		t.Errorf("%q, %v", v.Bytes(), err)
	}
	armed.Store(false) // v has nothing to release
	_ = db.Close()
	drained(t, db, before)
}

// TestTxnGetPinned: own writes, the snapshot's values, and what a serializable transaction depends
// on.
func TestTxnGetPinned(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
		MergeOperator: MergeOperatorNamed("append")})
	defer mustClose(t, db)
	mustPut(t, db, 1)
	mustPut(t, db, 2)
	tx := db.Begin(&TxnOptions{Isolation: Serializable})
	defer tx.Rollback()
	var own, old, folded PinnedValue
	defer own.Release()
	defer old.Release()
	defer folded.Release()
	if err := errors.Join(tx.Put(key(3), []byte("own")), tx.Delete(key(2)),
		tx.Merge(key(1), []byte("+"))); err != nil {
		t.Fatal(err)
	}
	wantPinned(t, tx, &own, key(3), []byte("own"))
	wantPinned(t, tx, &folded, key(1), append(value(1), ",+"...))
	if err := tx.GetPinned(key(2), &old); !errors.Is(err, ErrNotFound) || old.Bytes() != nil {
		t.Errorf("%q, %v", old.Bytes(), err)
	}
	mustPut(t, db, 4)
	if err := tx.GetPinned(key(4), &old); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := tx.Put(key(3), []byte("another")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(NoSync); !errors.Is(err, ErrConflict) {
		t.Errorf("a commit beside a write of a key that was read: %v", err)
	}
	if string(own.Bytes()) != "own" || !own.Copied() {
		t.Errorf("the own value has become %q", own.Bytes())
	}
	if err := tx.GetPinned(key(1), &own); !errors.Is(err, ErrTxnDone) || own.Bytes() != nil {
		t.Errorf("after the end: %q, %v", own.Bytes(), err)
	}
	if err := tx.GetPinned(key(1), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

// TestGetPinnedBesideAll reads beside writers, flushes, compactions and a cache that is too small,
// and looks at the values again later, some after Close.
func TestGetPinnedBesideAll(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	const keys, held = 300, 24
	of := func(i int, version uint32) []byte {
		return bytes.Repeat(fmt.Appendf(nil, "%d.%d ", i, version), 20+i)
	}
	for i := range keys {
		if err := db.Put(key(i), of(i, 0), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var background, readers sync.WaitGroup
	background.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for version := uint32(1); !stop.Load(); version++ {
			i := rng.IntN(keys)
			if err := db.Put(key(i), of(i, version), NoSync); err != nil {
				t.Error(err)
				return
			}
			switch version % 1500 {
			case 700:
				_ = db.Flush()
			case 1400:
				_ = db.CompactRangeContext(context.Background(), nil, nil)
			}
		}
	})
	const parallel = 3
	var read sync.WaitGroup
	read.Add(parallel)
	closed := make(chan struct{})
	for g := range parallel {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(g)))
			var values [held]PinnedValue
			var of [held]struct {
				i    int
				want []byte
			}
			check := func(n int) {
				if got := values[n].Bytes(); !bytes.Equal(got, of[n].want) {
					t.Errorf("value of %d has become %.40q, want %.40q", of[n].i, got, of[n].want)
				}
			}
			for range 6000 {
				n, i := rng.IntN(held), rng.IntN(keys)
				check(n)
				if err := db.GetPinned(key(i), &values[n]); err != nil {
					t.Error(err)
					break
				}
				of[n].i, of[n].want = i, bytes.Clone(values[n].Bytes())
				if !bytes.HasPrefix(of[n].want, fmt.Appendf(nil, "%d.", i)) {
					t.Errorf("%d is %.40q", i, of[n].want)
					break
				}
			}
			read.Done()
			<-closed
			for n := range values {
				check(n)
				values[n].Release()
			}
		})
	}
	read.Wait()
	stop.Store(true)
	background.Wait()
	mustClose(t, db)
	close(closed)
	readers.Wait()
}
