package lsm

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// moody is a comparer that panics at a call.
type moody struct {
	Comparer
	left atomic.Int64 // calls until the panic; 0 or less: none
}

func newMoody() *moody {
	m := &moody{}
	m.Comparer = Comparer{Name: "moody", Compare: func(a, b []byte) int {
		if m.left.Add(-1) == 0 {
			panic("no order today")
		}
		return bytes.Compare(a, b)
	}}
	return m
}

// sweep has the comparer panic at its calls in f, one after the other, the first of them and then
// each by one in grain later. between is called before each call of f.
func (m *moody) sweep(grain int64, between, f func()) (panics int) {
	for at := int64(1); ; at += 1 + at/grain {
		between()
		m.left.Store(at)
		f()
		if m.left.Swap(0) > 0 {
			return panics
		}
		panics++
	}
}

// panicReads are reads of a database, in which the comparer panics.
var panicReads = map[string]func(db *DB, i int){
	"Get":    func(db *DB, i int) { _, _ = db.Get(key(i), nil) },
	"NoFill": func(db *DB, i int) { _, _ = db.GetNoFill(key(i), nil) },
	"GetPinned": func(db *DB, i int) {
		var v PinnedValue
		_ = db.GetPinned(key(i), &v)
		v.Release()
	},
	"MultiGet": func(db *DB, i int) {
		var r MultiResult
		_ = db.MultiGet([][]byte{key(i), key(i + 1), key(7), key(i * 2)}, &r)
	},
	"Has": func(db *DB, i int) { _, _ = db.Has(key(i + 100_000)) },
	"iterator": func(db *DB, i int) {
		it := db.Iter(nil)
		for ok := it.SeekGE(key(i)); ok; ok = it.Next() {
			if i++; i%5 == 0 {
				break
			}
		}
		it.Prev()
		it.SeekLT(key(i))
		it.First()
		it.Last()
		_ = it.Close()
	},
	"prefix": func(db *DB, i int) {
		k := key(i)
		it := db.Iter(&IterOptions{Prefix: k[:len(k)-2], Lower: k, Upper: key(i + 1)})
		it.First()
		it.SetBounds(key(i+1), key(i+9))
		it.Last()
		_ = it.Close()
	},
}

// TestPanicsInReadsGiveMemoryBack has the comparer panic at its calls in reads of cached blocks and
// others, of tables with a whole index and with one in parts: when the database is closed, nothing
// of it is left in the cache, nor elsewhere off the heap.
func TestPanicsInReadsGiveMemoryBack(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		for _, bounded := range []bool{false, true} {
			before := offheap.InUse()
			readsWithPanics(t, format, bounded)
			wantLittleMore(t, before)
		}
	}
}

// wantLittleMore wants at most 4 MiB more off the heap than before: the buffers of reads, which the
// formats keep while any table of the process is open.
func wantLittleMore(t *testing.T, before int64) {
	t.Helper()
	if n := offheap.InUse() - before; n > 4<<20 {
		t.Errorf("%d bytes are left off the heap", n)
	}
}

func readsWithPanics(t *testing.T, format Format, bounded bool) {
	m := newMoody()
	o := &Options{FS: vfs.NewMem(), Format: format, Comparer: &m.Comparer, BlockSize: 256}
	var c *cache.Cache
	if bounded {
		o.Resources = NewResources(ResourcesOptions{Memory: 8 << 20})
		defer o.Resources.Close()
		c, _ = o.Resources.r.Cache()
		defer c.Unref()
	} else {
		o.Cache = NewCache(4 << 20)
		defer o.Cache.Close()
		c = o.Cache.c
	}
	const n = 20_000
	for range 2 {
		db := mustOpen(t, "db", o)
		putKeys(t, db, n)
		mustFlush(t, db)
		mustCompact(t, db)
		mustClose(t, db)
	}
	panics, full := 0, c.Capacity()
	for _, cold := range []bool{true, false} {
		for name, read := range panicReads {
			db := mustOpen(t, "db", o)
			i := 0
			panics += m.sweep(4, func() {
				if i = (i + 7919) % n; cold {
					c.SetCapacity(0)
					c.SetCapacity(full)
				} else {
					read(db, i) // caches its blocks
				}
			}, func() { read(db, i) })
			mustClose(t, db)
			db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
			if st := c.Stats(); st.Used != 0 {
				t.Errorf("%v, bounded %v, cold %v, after %s: %+v", format, bounded, cold, name, st)
			}
		}
	}
	if panics < 100 {
		t.Errorf("%v, bounded %v: %d panics", format, bounded, panics)
	}
}

// TestPanicsInJobsGiveMemoryBack has the comparer panic at its calls in a flush and a compaction,
// with range tombstones: nothing is left off the heap when the database is closed.
func TestPanicsInJobsGiveMemoryBack(t *testing.T) {
	m := newMoody()
	mem := vfs.NewMem()
	o := &Options{FS: mem, Format: FormatNative, Comparer: &m.Comparer, WriteBufferSize: 4 << 20}
	large := make([]byte, 2000)
	fill := func(db *DB, round int) {
		for i := range 500 {
			must(t, db.Put(key(i), large, NoSync))
		}
		for i := range 30 {
			from := (i*7919 + round) % 490
			must(t, db.DeleteRange(key(from), key(from+9), NoSync))
		}
	}
	db := mustOpen(t, "db", o)
	for round := range 2 {
		fill(db, round)
		mustFlush(t, db)
	}
	mustClose(t, db)
	for name, job := range map[string]func(db *DB) error{
		"flush":   func(db *DB) error { return db.Flush() },
		"compact": func(db *DB) error { return db.CompactRange(nil, nil) },
	} {
		before := offheap.InUse()
		panics := m.sweep(50, func() {
			o.FS = mem.Clone()
			db = mustOpen(t, "db", o)
			fill(db, 2) // after Open, which would begin to flush it in the background
		}, func() {
			_ = job(db)
			_ = db.Close()
		})
		if panics < 10 {
			t.Errorf("%s: %d panics", name, panics)
		}
		drained(t, db, before)
	}
}

// TestPanicBeforeACompactionGivesMemoryBack has the comparer panic while CompactRange looks for the
// end of its range: the state that it looks at goes with the database.
func TestPanicBeforeACompactionGivesMemoryBack(t *testing.T) {
	m := newMoody()
	before := offheap.InUse()
	var db *DB
	panics := m.sweep(1, func() {
		db = mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
			Comparer: &m.Comparer, DisableCompaction: true})
		for i := range 1000 {
			must(t, db.Put(key(i), make([]byte, 2000), NoSync))
		}
		mustFlush(t, db)
		if n := scanned(t, db); n != 1000 { // into the cache
			t.Errorf("%d keys", n)
		}
	}, func() {
		_ = db.CompactRange(nil, key(400))
		_ = db.Close()
	})
	if panics == 0 {
		t.Error("the comparer was not asked")
	}
	drained(t, db, before)
}

// TestComparerPanicsInMetrics has the comparer panic while Metrics estimates the compactions to
// come: the call returns, and the database is read-only.
func TestComparerPanicsInMetrics(t *testing.T) {
	m := newMoody()
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: &m.Comparer,
		DisableCompaction: true})
	for range 6 {
		mustPut(t, db, 1)
		mustPut(t, db, 2)
		mustFlush(t, db)
	}
	m.left.Store(1)
	db.Metrics()
	if err := db.Metrics().ReadOnly; m.left.Swap(0) > 0 || !errors.Is(err, ErrReadOnly) {
		t.Errorf("after a panic: %v", err)
	}
	_ = db.Close()
}
