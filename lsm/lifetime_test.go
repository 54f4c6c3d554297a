package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// Whatever is opened on a closed database gives back nothing of the cache that
// another database uses.
func TestClosedDatabaseReleasesCacheOnce(t *testing.T) {
	c := NewCache(32 << 20)
	a := mustOpen(t, t.TempDir(), &Options{Cache: c})
	b := mustOpen(t, t.TempDir(), &Options{Cache: c})
	putKeys(t, b, 1000)
	mustFlush(t, b)
	wantValue(t, b, 1)
	snap := a.Snapshot()
	mustClose(t, a)
	for range 3 {
		var errs [4]error
		its := []*Iterator{a.Iter(nil), snap.Iter(nil),
			a.Iter(&IterOptions{Prefix: []byte("k"), NoFillCache: true})}
		for range a.All(nil, nil, &errs[0]) {
			t.Error("an entry of a closed database")
		}
		for range a.Backward(nil, nil, &errs[1]) {
			t.Error("an entry of a closed database")
		}
		for range snap.Prefix([]byte("k"), &errs[2]) {
			t.Error("an entry of a closed database")
		}
		for _, it := range its {
			if it.First() || it.Last() || it.SeekGE(nil) {
				t.Error("a closed database has entries")
			}
			if err := it.Close(); !errors.Is(err, ErrClosed) {
				t.Errorf("iterator of a closed database: %v", err)
			}
		}
		errs[3] = snap.MultiGet([][]byte{key(1)}, new(MultiResult))
		for i, err := range errs {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("read %d of a closed database: %v", i, err)
			}
		}
		if err := a.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	}
	c.Close()
	c.Close()
	if _, err := Open(t.TempDir(), &Options{Cache: c}); !errors.Is(err, ErrClosed) {
		t.Errorf("open with a closed cache: %v", err)
	}
	if _, err := Open(t.TempDir(), &Options{Cache: new(Cache)}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Errorf("open with a cache that is none: %v", err)
	}
	wantValues(t, b, 1000)
	n := 0
	var err error
	for range b.All(nil, nil, &err) {
		n++
	}
	if n != 1000 || err != nil {
		t.Errorf("the other database has %d entries, %v", n, err)
	}
	mustClose(t, b)
}

// An iterator that outlives its database deletes nothing: by the same names
// there may be another database's files in the directory.
func TestIteratorOutlivesDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	old := mustOpen(t, dir, small(Options{}))
	for range 3 {
		putKeys(t, old, 100)
		mustFlush(t, old)
	}
	it := old.Iter(nil)
	if !it.First() {
		t.Fatal(it.Err())
	}
	mustPut(t, old, 1)
	if err := old.CompactRange(nil, nil); err != nil { // the iterator holds its inputs
		t.Fatal(err)
	}
	mustClose(t, old)
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
	db := mustOpen(t, dir, small(Options{DisableCompaction: true}))
	for i := range 600 { // six tables, numbered as those of the iterator
		mustPut(t, db, i)
		if i%100 == 99 {
			mustFlush(t, db)
		}
	}
	tables := func() string {
		names, err := fstest.Find(vfs.Default, dir, base.FileTable)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, "\n")
	}
	before := tables()
	if err := it.Close(); err != nil {
		t.Errorf("iterator that was closed after its database: %v", err)
	}
	old.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	old.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	old.engine.Parts().Shared.Files.WaitDeleted()
	if after := tables(); after != before {
		t.Errorf("before the old iterator's Close:\n%s\nafter it:\n%s", before, after)
	}
	mustClose(t, db)
	db = mustOpen(t, dir, nil)
	wantValues(t, db, 600)
	mustClose(t, db)
}

// blockReads is a file system on which reads of tables wait, from the time it is
// armed to that of release.
type blockReads struct {
	armed   atomic.Bool
	blocked chan struct{} // one for each read that waits
	release chan struct{}
}

func newBlockReads() *blockReads {
	return &blockReads{blocked: make(chan struct{}, 100), release: make(chan struct{})}
}

func (b *blockReads) hook(op vfs.Op) vfs.Outcome {
	if op.Kind == vfs.OpRead && fstest.TypeOf(op.Name) == base.FileTable && b.armed.Load() {
		b.blocked <- struct{}{}
		<-b.release
	}
	return vfs.Outcome{}
}

// A read that waits for the disk keeps the state that it reads, and no more: it keeps neither
// memory of later memtables, nor of other databases, nor does it delay Close.
func TestBlockedReadHoldsOnlyItsView(t *testing.T) {
	start := offheap.InUse()
	disk := newBlockReads()
	o := Options{FS: vfs.NewFault(vfs.NewMem(), disk.hook), CacheSize: -1, WriteBufferSize: 1 << 20,
		WALPreallocate: -1, DisableCompaction: true}
	db := mustOpen(t, "/db", &o)
	mustPut(t, db, 1)
	mustFlush(t, db)
	wantValue(t, db, 1)
	disk.armed.Store(true)
	type result struct {
		value []byte
		err   error
	}
	got := make(chan result, 2)
	go func() {
		v, err := db.Get(key(1), nil)
		got <- result{v, err}
	}()
	go func() {
		var r MultiResult
		err := db.MultiGet([][]byte{key(1)}, &r)
		v, _ := r.Value(0)
		got <- result{v, err}
	}()
	<-disk.blocked
	<-disk.blocked
	disk.armed.Store(false)

	other := mustOpen(t, t.TempDir(), &Options{WriteBufferSize: 1 << 20, CacheSize: -1,
		WALPreallocate: -1})
	base := offheap.InUse()
	large := make([]byte, 200<<10)
	for _, w := range []*DB{other, db} {
		for i := range 20 {
			if err := w.Put(key(i), large, NoSync); err != nil {
				t.Fatal(err)
			}
			mustFlush(t, w)
		}
		if !w.engine.Parts().Shared.Reads.DrainFor(hang.Limit()) {
			t.Error("flushed memtables are not freed beside a blocked read")
		}
		if n := offheap.InUse() - base; n > 6<<20 {
			t.Errorf("%d bytes are still held after 20 flushes of 1 MiB memtables", n)
		}
	}
	hang.Within(t, "Close beside a blocked read of another database", func() {
		mustClose(t, other)
	})
	hang.Within(t, "Close beside a blocked read of its own", func() { mustClose(t, db) })
	close(disk.release)
	for range 2 {
		if r := <-got; r.err == nil && !bytes.Equal(r.value, value(1)) || r.err != nil &&
			!errors.Is(r.err, ErrClosed) {
			t.Errorf("the blocked read: %q, %v", r.value, r.err)
		}
	}
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit()) // the views
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit()) // the readers
	// Pooled buffers of reads come and go with the garbage collector. A memtable is far larger.
	if n := offheap.InUse(); n-start > 64<<10 {
		t.Errorf("%d bytes off the heap, %d at the start", n, start)
	}
}

// A panic where memory and descriptors are given back makes the database
// read-only, and its stack is in the error.
func TestPanicInRetiredFunction(t *testing.T) {
	var armed atomic.Bool
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpClose && fstest.TypeOf(op.Name) == base.FileTable &&
			armed.CompareAndSwap(true, false) {
			panic("close of a table")
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "/db", small(Options{FS: fsys, DisableCompaction: true}))
	for range 2 {
		mustPut(t, db, 1)
		mustFlush(t, db)
		wantValue(t, db, 1)
	}
	// The writers of tables close them, too: arm at the last moment.
	err := func() error {
		it := db.Iter(nil) // keeps the inputs
		defer it.Close()
		it.First()
		defer armed.Store(true)
		return db.CompactRange(nil, nil)
	}()
	if err != nil {
		t.Fatal(err)
	}
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	err = db.Put(key(2), nil, NoSync)
	if !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "close of a table") ||
		!strings.Contains(err.Error(), "detach") {
		t.Errorf("write after a panic in a retired function: %v", err)
	}
	if m := db.Metrics(); m.ReadOnly == nil {
		t.Error("Metrics do not tell")
	}
	wantValue(t, db, 1)
	mustClose(t, db)
}

// Writes and barriers beside Close succeed or fail with ErrClosed; nothing else.
func TestWritesBesideClose(t *testing.T) {
	procs := runtime.GOMAXPROCS(8)
	defer runtime.GOMAXPROCS(procs)
	empty := NewBatch()
	for round := range seed.Scale(seed.Brief(40, 100), 100, 300) {
		db := mustOpen(t, "/db", &Options{FS: vfs.NewMem(), WriteBufferSize: 64 << 10,
			CacheSize: -1, WALPreallocate: -1})
		var wg sync.WaitGroup
		var puts atomic.Int64
		enough := make(chan struct{})
		for g := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					var err error
					switch {
					case g == 7:
						err = db.Write(empty, Sync)
					case g == 6:
						err = db.Flush()
					default:
						err = db.Put(key(g), value(i), WriteMode(g&1))
					}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("round %d: beside Close: %v", round, err)
						}
						return
					}
					if puts.Add(1) == int64(8+round%40) {
						close(enough)
					}
				}
			})
		}
		<-enough
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- db.Close() }()
		}
		first, second := <-closed, <-closed
		if first != nil {
			first, second = second, first
		}
		if first != nil || !errors.Is(second, ErrClosed) {
			t.Errorf("two Closes: %v, %v", first, second)
		}
		wg.Wait()
		if err := db.Put(key(1), nil, NoSync); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// A snapshot fails with ErrClosed instead of reading a state in which its entries may be missing.
func TestSnapshotReadsBesideItsClose(t *testing.T) {
	procs := runtime.GOMAXPROCS(16) // readers are interrupted anywhere
	defer runtime.GOMAXPROCS(procs)
	db := mustOpen(t, "/db", small(Options{FS: vfs.NewMem(), DisableCompaction: true}))
	defer db.Close()
	for round := range seed.Scale(seed.Brief(25, 40), 50, 1000) {
		mustPut(t, db, 1)
		snap := db.Snapshot()
		if err := db.Put(key(1), []byte("later"), NoSync); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		// Close comes at once, or beside the first or second reads
		reading := make(chan struct{}, 24)
		check := func(v []byte, err error) bool {
			if errors.Is(err, ErrClosed) {
				return false
			}
			if err != nil || !bytes.Equal(v, value(1)) {
				t.Errorf("round %d: beside the snapshot's Close: %q, %v", round, v, err)
				return false
			}
			return true
		}
		for g := range 12 {
			wg.Go(func() {
				for ok := true; ok; {
					select {
					case reading <- struct{}{}:
					default:
					}
					if g%3 == 0 {
						it := snap.Iter(nil)
						if it.SeekGE(key(1)) {
							ok = check(it.Value(), nil)
						} else {
							ok = check(nil, it.Err())
						}
						it.Close()
						continue
					}
					ok = check(snap.Get(key(1), nil))
				}
			})
		}
		for range 12 * (round % 3) {
			<-reading
		}
		snap.Close()
		mustCompact(t, db)
		wg.Wait()
	}
}

func TestSnapshotOfAnotherDatabase(t *testing.T) {
	a, b := mustOpen(t, t.TempDir(), nil), mustOpen(t, t.TempDir(), nil)
	defer a.Close()
	defer b.Close()
	snap := a.Snapshot()
	defer snap.Close()
	mustPut(t, b, 1)
	it := b.Iter(&IterOptions{Snapshot: snap})
	if it.First() || !errors.Is(it.Err(), ErrInvalidArgument) {
		t.Errorf("a snapshot of another database: valid %v, %v", it.Valid(), it.Err())
	}
	if err := it.Close(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

// failingReads is a file system in memory whose reads of tables fail while failing is
// set.
func failingReads() (fsys FS, failing *atomic.Bool) {
	failing = new(atomic.Bool)
	return vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRead && fstest.TypeOf(op.Name) == base.FileTable && failing.Load() {
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	}), failing
}

// After a failure an iterator is good again as soon as what failed is.
func TestIteratorTriesAgain(t *testing.T) {
	fsys, failing := failingReads()
	// What a mapping has is not read again.
	db := mustOpen(t, "/db", &Options{FS: fsys, CacheSize: -1, BlockSize: 1 << 10, Mmap: MmapOff})
	defer db.Close()
	const n = 8000 // more than a source reads ahead
	putKeys(t, db, n)
	mustFlush(t, db)
	moves := []struct {
		name string
		move func(it *Iterator) bool
		want int
	}{
		{"First", (*Iterator).First, 0},
		{"Last", (*Iterator).Last, n - 1},
		{"SeekGE", func(it *Iterator) bool { return it.SeekGE(key(500)) }, 500},
		{"SeekLT", func(it *Iterator) bool { return it.SeekLT(key(500)) }, 499},
	}
	it := db.Iter(&IterOptions{Lower: key(0), Upper: key(n)})
	for _, m := range moves {
		failing.Store(true)
		for i := 0; it.Err() == nil; i++ { // outside the cached blocks
			if i > 10*n {
				t.Fatal("reads do not fail")
			}
			if !it.Next() {
				it.SeekGE(key(i * 37 % n))
			}
		}
		if it.Valid() || it.Next() || it.Prev() || !errors.Is(it.Err(), syscall.EIO) {
			t.Errorf("after a failed read: valid %v, %v", it.Valid(), it.Err())
		}
		if m.move(it) || !errors.Is(it.Err(), syscall.EIO) {
			t.Errorf("%s while reads fail: %v", m.name, it.Err())
		}
		failing.Store(false)
		if !m.move(it) || !bytes.Equal(it.Key(), key(m.want)) || it.Err() != nil {
			t.Errorf("%s after a failure that passed: %q, %v; want %q", m.name, it.Key(), it.Err(),
				key(m.want))
		}
	}
	if got := countEntries(it); got != n || it.Err() != nil {
		t.Errorf("%d entries after a failure that passed, %v", got, it.Err())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}

// countEntries moves an iterator over all of its entries.
func countEntries(it *Iterator) (n int) {
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n
}

// A panic of the comparer in a move is that move's failure.
func TestIteratorAfterPanic(t *testing.T) {
	var armed atomic.Bool
	order := &Comparer{Name: "panics", Compare: func(a, b []byte) int {
		if armed.Load() {
			panic("compare")
		}
		return bytes.Compare(a, b)
	}}
	db := mustOpen(t, t.TempDir(), small(Options{Comparer: order}))
	defer db.Close()
	for i := range 500 {
		mustPut(t, db, i)
		if i%100 == 99 {
			mustFlush(t, db)
		}
	}
	it := db.Iter(nil)
	for i := range 3 {
		armed.Store(true)
		if it.SeekGE(key(250+i)) || it.Valid() || !errors.Is(it.Err(), ErrReadOnly) ||
			!strings.Contains(it.Err().Error(), "compare") {
			t.Errorf("a seek in which the comparer panics: %v", it.Err())
		}
		armed.Store(false)
		if n := countEntries(it); n != 500 || it.Err() != nil {
			t.Errorf("%d entries after a panic that passed, %v", n, it.Err())
		}
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoEntryAfterFailure: after a move that a panic of the comparer or the end of the database has
// failed, the iterator shows nothing: what it showed before may lie in blocks that it gave up.
func TestNoEntryAfterFailure(t *testing.T) {
	m := newMoody()
	db := mustOpen(t, t.TempDir(), small(Options{Comparer: &m.Comparer}))
	defer db.Close()
	const n = 600
	for j := range 3 {
		for i := j; i < n; i += 3 {
			mustPut(t, db, i)
		}
		mustFlush(t, db)
	}
	wantNothing := func(it *Iterator, name string, want error) {
		t.Helper()
		if it.Key() != nil || it.Value() != nil || it.Valid() || !errors.Is(it.Err(), want) {
			t.Errorf("%s: at %q after it failed: %v", name, it.Key(), it.Err())
		}
	}
	seek := func(it *Iterator) bool { return it.SeekGE(key(n / 2)) }
	for name, move := range map[string]func(*Iterator) bool{
		"First": (*Iterator).First, "Last": (*Iterator).Last, "Next": (*Iterator).Next,
		"Prev": (*Iterator).Prev, "SeekGE": seek,
		"SeekLT": func(it *Iterator) bool { return it.SeekLT(key(n / 2)) },
	} {
		m.sweep(4, func() {}, func() {
			left := m.left.Swap(0)
			it := db.Iter(nil)
			defer it.Close()
			it.SeekGE(key(n / 3))
			m.left.Store(left)
			if !move(it) {
				wantNothing(it, name, ErrReadOnly)
			}
		})
	}
	for name, move := range map[string]func(*Iterator) bool{
		"Next": (*Iterator).Next, "SeekGE": seek, "Valid": (*Iterator).Valid,
	} {
		db := mustOpen(t, t.TempDir(), nil)
		mustPut(t, db, 1)
		it := db.Iter(nil)
		if !it.First() {
			t.Fatal(it.Err())
		}
		if err := db.Close(); err != nil || move(it) {
			t.Errorf("%s beside a closed database: %v", name, err)
		}
		wantNothing(it, name, ErrClosed)
		it.Close()
	}
}

// The comparer is asked for the bounds of a prefix too: if it panics then, the iterator has failed.
func TestIteratorBoundsPanic(t *testing.T) {
	m := newMoody()
	db := mustOpen(t, t.TempDir(), &Options{Comparer: &m.Comparer})
	defer db.Close()
	mustPut(t, db, 1)
	o := &IterOptions{Prefix: key(1)[:3], Lower: key(0), Upper: key(2)}
	wantFailed := func(it *Iterator, at int64) {
		t.Helper()
		m.left.Store(0)
		for range 2 {
			if it.First() || it.Valid() || !errors.Is(it.Err(), ErrReadOnly) ||
				!strings.Contains(it.Err().Error(), "no order today") {
				t.Errorf("bounds at whose comparison %d the comparer panics: %v", at, it.Err())
			}
		}
		it.SetBounds(nil, nil)
		if err := it.Close(); !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
	}
	for at := range int64(3) {
		m.left.Store(at + 1)
		wantFailed(db.Iter(o), at)
	}
	for at := range int64(2) {
		it := db.Iter(o)
		if !it.First() {
			t.Fatal(it.Err())
		}
		m.left.Store(at + 1)
		it.SetBounds(key(1), key(2))
		wantFailed(it, at)
	}
}

// Close does not change what Err says of an iteration; moves after it do.
func TestIteratorAfterItsClose(t *testing.T) {
	db := mustOpen(t, t.TempDir(), nil)
	defer db.Close()
	mustPut(t, db, 1)
	moves := map[string]func(*Iterator) bool{
		"First": (*Iterator).First, "Last": (*Iterator).Last, "Next": (*Iterator).Next,
		"Prev": (*Iterator).Prev, "SeekGE": func(it *Iterator) bool { return it.SeekGE(nil) },
		"SeekLT":    func(it *Iterator) bool { return it.SeekLT(key(9)) },
		"NextBlock": func(it *Iterator) bool { _, n := it.NextBlock(nil, 0, 0); return n > 0 },
		"PrevBlock": func(it *Iterator) bool { _, n := it.PrevBlock(nil, 0, 0); return n > 0 },
	}
	for name, move := range moves {
		it := db.Iter(nil)
		for it.Next() || it.First() && it.Next() {
		}
		for range 2 {
			if err := errors.Join(it.Close(), it.Err()); err != nil {
				t.Errorf("an iteration that ended well: %v", err)
			}
		}
		it.SetBounds(nil, nil)
		if it.Valid() || it.Key() != nil || it.Value() != nil {
			t.Error("a closed iterator is at an entry")
		}
		if move(it) || !errors.Is(it.Err(), ErrClosed) {
			t.Errorf("%s after Close: %v", name, it.Err())
		}
	}
}

// A scan that ends early tells its caller, and one that could not is refused.
func TestScanError(t *testing.T) {
	fsys, failing := failingReads()
	db := mustOpen(t, "/db", &Options{FS: fsys, CacheSize: -1})
	putKeys(t, db, 100)
	mustFlush(t, db)
	snap := db.Snapshot()
	failing.Store(true)
	err := errors.New("from before")
	for name, scan := range map[string]func(err *error){
		"All": func(err *error) {
			db.All(nil, nil, err)(func(_, _ []byte) bool { return true })
		},
		"Backward": func(err *error) {
			db.Backward(nil, nil, err)(func(_, _ []byte) bool { return true })
		},
		"Prefix": func(err *error) {
			db.Prefix(key(1), err)(func(_, _ []byte) bool { return true })
		},
		"Snapshot.All": func(err *error) {
			snap.All(nil, nil, err)(func(_, _ []byte) bool { return true })
		},
		"Snapshot.Backward": func(err *error) {
			snap.Backward(nil, nil, err)(func(_, _ []byte) bool { return true })
		},
		"Snapshot.Prefix": func(err *error) {
			snap.Prefix(key(1), err)(func(_, _ []byte) bool { return true })
		},
	} {
		failing.Store(true)
		scan(&err)
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s on a failing disk: %v", name, err)
		}
		failing.Store(false)
		scan(&err)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, "pass &err") {
					t.Errorf("%s without a place for the error: %v", name, r)
				}
			}()
			scan(nil)
		}()
	}
	// A loop that a panic ends gives back what it held.
	func() {
		defer func() { _ = recover() }()
		for range db.All(nil, nil, &err) {
			panic("in the loop")
		}
	}()
	snap.Close()
	mustClose(t, db)
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	if db.engine.Parts().Cache.Ref() {
		t.Error("the cache is still held")
	}
}
