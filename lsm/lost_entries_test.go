package lsm

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// countKeys reads the whole database.
func countKeys(t testing.TB, db *DB) (n int) {
	t.Helper()
	var err error
	for range db.All(nil, nil, &err) {
		n++
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// failingComparer orders by bytes until bad is set; then it panics.
func failingComparer() (c *Comparer, bad *atomic.Bool) {
	bad = new(atomic.Bool)
	return &Comparer{Name: "test.Failing", EqualIsBytewise: true, Compare: func(a, b []byte) int {
		if bad.Load() {
			panic("the comparer gave up")
		}
		return bytes.Compare(a, b)
	}}, bad
}

// failing is a database of synced keys whose comparer can be made to fail.
type failing struct {
	fs  *vfs.Mem
	o   Options
	bad *atomic.Bool
	db  *DB
}

const failingKeys = 1000

func newFailing(t *testing.T) *failing {
	t.Helper()
	f := &failing{fs: vfs.NewMem()}
	f.o.FS = f.fs
	f.o.Comparer, f.bad = failingComparer()
	f.db = mustOpen(t, "/db", &f.o)
	for i := range failingKeys {
		if err := f.db.Put(key(i), value(i), Sync); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// wantAll opens the database again.
func (f *failing) wantAll(t *testing.T) {
	t.Helper()
	db := mustOpen(t, "/db", &f.o)
	if got := countKeys(t, db); got != failingKeys {
		t.Errorf("%d of %d synced keys after reopening", got, failingKeys)
	}
	mustClose(t, db)
}

// TestFlushKeepsWhatItCannotOrder flushes a memtable whose order cannot be made:
// Flush fails, and the log keeps the entries.
func TestFlushKeepsWhatItCannotOrder(t *testing.T) {
	f := newFailing(t)
	f.bad.Store(true)
	if err := f.db.Flush(); err == nil || !strings.Contains(err.Error(), "the comparer gave up") {
		t.Errorf("Flush: %v", err)
	}
	f.bad.Store(false)
	_ = f.db.Close() // it may report the same
	f.wantAll(t)
}

// TestOpenKeepsWhatItCannotOrder is the same for the memtable of a recovery.
func TestOpenKeepsWhatItCannotOrder(t *testing.T) {
	f := newFailing(t)
	killed := f.fs.CrashClone(vfs.KeepAll())
	mustClose(t, f.db)
	f.o.FS = killed
	f.bad.Store(true)
	if db, err := Open("/db", &f.o); err == nil ||
		!strings.Contains(err.Error(), "the comparer gave up") {
		t.Errorf("Open: %v", err)
		if err == nil {
			_ = db.Close()
		}
	}
	f.bad.Store(false)
	f.wantAll(t)
}

// TestComparerThatIsNoOrder flushes keys whose comparer is not transitive: either the
// flush fails, and the log has all of them for a comparer that is one, or all are in
// the table.
func TestComparerThatIsNoOrder(t *testing.T) {
	failed, step := 0, 13
	if testing.Short() {
		step = 80
	}
	for n := 3; n < 400; n += step {
		var sane atomic.Bool
		c := &Comparer{Name: "test.Unruly", EqualIsBytewise: true, Compare: func(a, b []byte) int {
			r := bytes.Compare(a, b)
			if !sane.Load() && len(a) > 0 && len(b) > 0 && (a[len(a)-1]^b[len(b)-1])%5 == 3 {
				return -r // antisymmetric still
			}
			return r
		}}
		fsys := vfs.NewMem()
		o := Options{FS: fsys, Comparer: c}
		db := mustOpen(t, "/db", &o)
		for i := range n {
			if err := db.Put(key(i*7919%n), value(i), Sync); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			failed++
			o.FS = fsys.CrashClone(vfs.KeepAll())
			_ = db.Close() // it may report the same
			sane.Store(true)
			db = mustOpen(t, "/db", &o)
		}
		if got := countKeys(t, db); got != n {
			t.Errorf("%d of %d keys", got, n)
		}
		mustClose(t, db)
	}
	if failed == 0 {
		t.Error("no flush failed: the comparer is an order after all")
	}
}

// TestComparerThatCallsAllSmaller flushes keys of which a comparer calls each the smaller one: the
// flush fails, and the log has all of them for a comparer that is an order.
func TestComparerThatCallsAllSmaller(t *testing.T) {
	var sane atomic.Bool
	c := &Comparer{Name: "test.Smaller", Compare: func(a, b []byte) int {
		if sane.Load() {
			return bytes.Compare(a, b)
		}
		return -1
	}}
	for _, n := range []int{1, 2, 200} {
		sane.Store(false)
		fsys := vfs.NewMem()
		o := Options{FS: fsys, Comparer: c}
		db := mustOpen(t, "/db", &o)
		for i := range n {
			must(t, db.Put(key(i), value(i), Sync))
		}
		if err := db.Flush(); err == nil || !strings.Contains(err.Error(), "no order") {
			t.Errorf("the flush of %d keys: %v", n, err)
		}
		o.FS = fsys.CrashClone(vfs.KeepAll())
		_ = db.Close() // it may report the same
		sane.Store(true)
		db = mustOpen(t, "/db", &o)
		if got := countKeys(t, db); got != n {
			t.Errorf("%d of %d keys", got, n)
		}
		mustClose(t, db)
	}
}
