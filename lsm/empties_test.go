package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestEmptyRangeMetrics counts what iterators pass over, and what becomes of known-empty ranges.
func TestEmptyRangeMetrics(t *testing.T) {
	needsNative(t)
	n := 200
	if invariants.Enabled {
		n = 36 // after a few more a scout comes
	}
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	other := mustSpace(t, db, "other")
	putKeys(t, db, n+1)
	for i := range n {
		mustAll(t, db.Delete(key(i), NoSync))
	}
	first := func(want int) {
		t.Helper()
		it := db.Iter(nil)
		if !it.First() || !bytes.Equal(it.Key(), key(want)) {
			t.Errorf("First is at %q", it.Key())
		}
		mustAll(t, it.Close())
	}
	want := func(what string, held int, hits, cuts, least, most uint64) {
		t.Helper()
		m := db.Metrics().EmptyRanges
		if m.Held != held || m.Hits != hits || m.Cuts != cuts || m.DeadEntries < least ||
			m.DeadEntries > most {
			t.Errorf("%s: %+v", what, m)
		}
		o := other.Metrics().EmptyRanges
		if o.Held != 0 || o.Hits != m.Hits || o.Cuts != m.Cuts || o.DeadEntries != m.DeadEntries {
			t.Errorf("%s, of another keyspace: %+v", what, o)
		}
	}
	want("before", 0, 0, 0, 0, 0)
	first(n)
	// deletions, and what they delete
	want("after a look", 1, 0, 0, uint64(max(n-64, n/4)), uint64(2*n))
	passed := db.Metrics().EmptyRanges.DeadEntries
	first(n)
	want("after another one", 1, 1, 0, passed, passed+8)
	mustPut(t, db, n+50)
	want("a put behind it", 1, 1, 0, passed, passed+8)
	mustPut(t, db, n/2)
	want("a put into it", 2, 1, 1, passed, passed+8)
	first(n / 2)
	want("a look up to that", 2, 2, 1, passed, passed+16)
}

// emptied is a database with rows 0 to 199 deleted, row 200 there, and the fact known.
func emptied(t *testing.T) *DB {
	t.Helper()
	db := mustOpen(t, filepath.Join(t.TempDir(), "db"), &Options{Format: FormatNative,
		MergeOperator: MergeOperatorNamed("append")})
	empty(t, db)
	return db
}

func empty(t *testing.T, db *DB) {
	t.Helper()
	putKeys(t, db, 201)
	held := db.Snapshot() // keeps what is deleted in flushes
	t.Cleanup(func() { held.Close() })
	for i := range 200 {
		mustAll(t, db.Delete(key(i), NoSync))
	}
	wantFirst(t, db, 200)
}

// wantFirst looks for the first row by all moves, twice.
func wantFirst(t *testing.T, r interface {
	Iter(*IterOptions) *Iterator
}, want int) {
	t.Helper()
	for range 2 {
		it := r.Iter(nil)
		if !it.First() || !bytes.Equal(it.Key(), key(want)) {
			t.Errorf("First is at %q, want %d; %v", it.Key(), want, it.Err())
		}
		if !it.SeekGE(key(min(1, want))) || !bytes.Equal(it.Key(), key(want)) {
			t.Errorf("SeekGE is at %q, want %d; %v", it.Key(), want, it.Err())
		}
		if it.Prev() {
			t.Errorf("before %d there is %q", want, it.Key())
		}
		var all []string
		for ok := it.Last(); ok; ok = it.Prev() {
			all = append(all, string(it.Key()))
		}
		if len(all) == 0 || all[len(all)-1] != string(key(want)) {
			t.Errorf("backward: %q, want %d", all, want)
		}
		n := len(all)
		for ok := it.First(); ok; ok = it.Next() {
			n--
		}
		if n != 0 {
			t.Errorf("forward there are %d less than backward", n)
		}
		mustAll(t, it.Close())
	}
}

// TestEmptiesAreCut: each kind of write into an empty range is seen.
func TestEmptiesAreCut(t *testing.T) {
	top := t.TempDir()
	table := writeTable(t, filepath.Join(top, "table"), &Options{Format: FormatNative},
		string(key(100)), "v", string(key(101)), "v")
	ctx := context.Background()
	for name, write := range map[string]func(db *DB) error{
		"put":   func(db *DB) error { return db.Put(key(100), nil, NoSync) },
		"TTL":   func(db *DB) error { return db.PutTTL(key(100), nil, time.Hour, NoSync) },
		"merge": func(db *DB) error { return db.Merge(key(100), []byte("v"), NoSync) },
		"batch": func(db *DB) error {
			b := db.NewBatch()
			b.Delete(key(50))
			b.Put(key(300), nil)
			b.Put(key(100), nil)
			return db.Write(b, NoSync)
		},
		"batch over keyspaces": func(db *DB) error {
			k, err := db.Keyspace("other", nil)
			if err != nil {
				return err
			}
			b := db.NewBatch()
			b.In(k).Put(key(50), nil)
			b.Put(key(100), nil)
			return db.Write(b, NoSync)
		},
		"transaction": func(db *DB) error {
			return db.Update(ctx, func(tx *Txn) error { return tx.Put(key(100), nil) })
		},
		"compare and swap": func(db *DB) error {
			_, err := db.PutIfAbsent(key(100), nil, NoSync)
			return err
		},
		"ingest": func(db *DB) error { return db.Ingest(ctx, nil, table) },
		"bulk load": func(db *DB) error {
			return db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
				_ = yield(key(100), nil) && yield(key(101), nil)
			}, nil)
		},
		"after an ingest": func(db *DB) error {
			if err := db.Ingest(ctx, nil, table); err != nil {
				return err
			}
			err := errors.Join(db.Delete(key(100), NoSync), db.Delete(key(101), NoSync))
			wantFirst(t, db, 200)
			return errors.Join(err, db.Put(key(100), nil, NoSync))
		},
		"after a flush": func(db *DB) error {
			err := db.Flush()
			wantFirst(t, db, 200)
			return errors.Join(err, db.Put(key(100), nil, NoSync))
		},
		"after a compaction": func(db *DB) error {
			err := db.CompactRange(nil, nil)
			wantFirst(t, db, 200)
			return errors.Join(err, db.Put(key(100), nil, NoSync))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := emptied(t)
			defer mustClose(t, db)
			snap := db.Snapshot()
			defer snap.Close()
			it := db.Iter(nil)
			defer it.Close()
			mustAll(t, write(db))
			wantFirst(t, db, 100)
			wantFirst(t, snap, 200)
			if !it.First() || !bytes.Equal(it.Key(), key(200)) {
				t.Errorf("an iterator of before the write is at %q", it.Key())
			}
			mustAll(t, db.Delete(key(100), NoSync), db.Delete(key(101), NoSync))
			wantFirst(t, db, 200)
			mustAll(t, db.Put(key(100), nil, NoSync))
			wantFirst(t, db, 100)
		})
	}
}

// TestEmptiesAreOfLaterReaders: a fact is not for snapshots of before.
func TestEmptiesAreOfLaterReaders(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	putKeys(t, db, 201)
	full := db.Snapshot()
	defer full.Close()
	it := db.Iter(nil)
	defer it.Close()
	var snaps []*Snapshot
	for i := range 200 {
		snaps = append(snaps, db.Snapshot())
		mustAll(t, db.Delete(key(i), NoSync))
	}
	wantFirst(t, db, 200)
	wantFirst(t, full, 0)
	for i, s := range snaps {
		wantFirst(t, s, i)
		s.Close()
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if n != 201 {
		t.Errorf("an iterator of before sees %d rows", n)
	}
	wantFirst(t, db, 200)
}

// TestEmptiesOfBounds: entries passed over within bounds prove nothing about keys outside.
func TestEmptiesOfBounds(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	for i := range 400 {
		mustPut(t, db, i)
		if i%200 >= 10 && i%200 < 190 {
			mustAll(t, db.Delete(key(i), NoSync))
		}
	}
	see := func(o *IterOptions, back bool) (n int) {
		it := db.Iter(o)
		defer it.Close()
		move, ok := it.Next, it.First()
		if back {
			move, ok = it.Prev, it.Last()
		}
		for ; ok; ok = move() {
			n++
		}
		mustAll(t, it.Err())
		return n
	}
	for range 3 {
		for _, back := range []bool{false, true} {
			for _, c := range []struct{ from, to, want int }{
				{10, 190, 0}, {20, 120, 0}, {9, 180, 1}, {15, 191, 1}, {100, 300, 20}, {0, 400, 40},
			} {
				o := &IterOptions{Lower: key(c.from), Upper: key(c.to)}
				if n := see(o, back); n != c.want {
					t.Errorf("from %d to %d, back %v: %d rows, want %d", c.from, c.to, back, n,
						c.want)
				}
			}
			if n := see(&IterOptions{Prefix: []byte("key000001")}, back); n != 10 {
				t.Errorf("prefix 1: %d rows", n)
			}
			if n := see(nil, back); n != 40 {
				t.Errorf("all: %d rows", n)
			}
		}
	}
}

// TestEmptiesOfOwnWrites: what is empty for a transaction, or not, because of its own writes.
func TestEmptiesOfOwnWrites(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative})
	defer mustClose(t, db)
	putKeys(t, db, 401)
	for i := range 10 { // readers pass over some entries before they ask what is known
		mustAll(t, db.Delete(key(i), NoSync))
	}
	for _, ranged := range []bool{false, true} {
		tx := db.Begin(nil)
		if ranged {
			mustAll(t, tx.DeleteRange(key(0), key(400)))
		}
		for i := range 400 {
			mustAll(t, tx.Delete(key(i)))
		}
		wantFirst(t, tx, 400)
		wantFirst(t, db, 10)
		if !ranged {
			mustAll(t, tx.Rollback())
			continue
		}
		mustAll(t, tx.Commit(NoSync))
	}
	wantFirst(t, db, 400)
	tx := db.Begin(nil)
	mustAll(t, tx.Put(key(100), nil))
	wantFirst(t, tx, 100)
	wantFirst(t, db, 400)
	mustAll(t, tx.Put(key(50), nil))
	wantFirst(t, tx, 50)
	mustAll(t, tx.Delete(key(50)))
	wantFirst(t, tx, 100)
	mustAll(t, tx.Commit(NoSync))
	wantFirst(t, db, 100)
}

// TestEmptiesOfTime: values that have expired make a range empty for later readers, not for
// snapshots of before.
func TestEmptiesOfTime(t *testing.T) {
	s := openTTL(t, nil)
	for i := range 200 {
		s.ok(s.PutTTL(key(i), nil, 10*time.Second, NoSync))
	}
	mustPut(t, s.DB, 200)
	for i := range 10 { // readers pass over some entries before they ask what is known
		s.ok(s.Delete(key(i), NoSync))
	}
	snap := s.Snapshot()
	defer snap.Close()
	wantFirst(t, s.DB, 10)
	s.clock.add(time.Minute)
	wantFirst(t, s.DB, 200)
	wantFirst(t, snap, 10)
	s.clock.add(-time.Minute)
	wantFirst(t, s.DB, 200)
	s.ok(s.PutTTL(key(100), nil, 10*time.Second, NoSync))
	wantFirst(t, s.DB, 100)
	s.clock.add(2 * time.Minute)
	wantFirst(t, s.DB, 200)
	wantFirst(t, snap, 10)
}

// TestEmptiesOfFilters: what a compaction filter removes is there for a snapshot that was opened
// while the compaction ran, though no sequence number tells it from later readers.
func TestEmptiesOfFilters(t *testing.T) {
	var db *DB
	var snap *Snapshot
	var once sync.Once
	opened := make(chan struct{})
	db = mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
		CompactionFilter: &CompactionFilter{Name: "test.All",
			Filter: func(_ int, key, value []byte) (FilterDecision, error) {
				once.Do(func() {
					go func() { snap = db.Snapshot(); close(opened) }()
					<-opened
				})
				if string(value) == "keep" {
					return FilterKeep, nil
				}
				return FilterRemove, nil
			}}})
	defer mustClose(t, db)
	putKeys(t, db, 200)
	mustAll(t, db.Put(key(200), []byte("keep"), NoSync), db.Flush())
	wantFirst(t, db, 0)
	held := db.Snapshot() // keeps what the filter removes
	defer held.Close()
	for i := range 200 {
		mustAll(t, db.Delete(key(i), NoSync))
		mustPut(t, db, i)
	}
	for i := range 10 { // readers pass over some entries before they ask what is known
		mustAll(t, db.Delete(key(i), NoSync))
	}
	mustAll(t, db.CompactRange(nil, nil))
	<-opened
	for range 3 {
		wantFirst(t, db, 200)
		wantFirst(t, snap, 10)
	}
	mustAll(t, snap.Close())
}

// TestEmptiesOfKeyspaces: facts are of one keyspace, and not of the next one with its name.
func TestEmptiesOfKeyspaces(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), nil)
	defer mustClose(t, db)
	for range 2 {
		one, two := mustSpace(t, db, "one"), mustSpace(t, db, "two")
		for i := range 201 {
			mustAll(t, one.Put(key(i), nil, NoSync), two.Put(key(i), nil, NoSync))
		}
		for i := range 200 {
			mustAll(t, one.Delete(key(i), NoSync))
		}
		wantFirst(t, one, 200)
		wantFirst(t, two, 0)
		b := db.NewBatch()
		b.In(two).Delete(key(0))
		b.In(one).Put(key(7), nil)
		mustAll(t, db.Write(b, NoSync))
		wantFirst(t, one, 7)
		wantFirst(t, two, 1)
		mustAll(t, db.DropKeyspace("one"), db.DropKeyspace("two"))
	}
}

// TestEmptiesReopen: facts do not outlive the database, and what was deleted stays so.
func TestEmptiesReopen(t *testing.T) {
	o := &Options{FS: vfs.NewMem()}
	db := mustOpen(t, "db", o)
	empty(t, db)
	for range 3 {
		mustClose(t, db)
		db = mustOpen(t, "db", o)
		wantFirst(t, db, 200)
		mustPut(t, db, 100)
		mustClose(t, db)
		db = mustOpen(t, "db", o)
		wantFirst(t, db, 100)
		mustAll(t, db.Delete(key(100), NoSync))
		wantFirst(t, db, 200)
	}
	mustClose(t, db)
}

// windows is a database whose rows come and go in windows, and what snapshots must see.
type windows struct {
	t    *testing.T
	db   *DB
	rng  *rand.Rand
	now  map[int]string
	held []*windowsView

	format Format // the zero one is native
}

type windowsView struct {
	snap *Snapshot
	it   *Iterator
	sees map[int]string
}

const windowRows = 600

// write changes a window of rows, or some.
func (w *windows) write() error {
	from, n := w.rng.IntN(windowRows), 1+w.rng.IntN(200)
	b := w.db.NewBatch()
	value := fmt.Sprint(w.rng.Uint32())
	kind := w.rng.IntN(8)
	if kind == 7 && w.format == FormatLevelDB { // it has no range deletes
		kind = 0
	}
	if kind == 7 {
		to := min(from+n, windowRows)
		for i := from; i < to; i++ {
			delete(w.now, i)
		}
		return w.db.DeleteRange(key(from), key(to), NoSync)
	}
	for i := from; i < min(from+n, windowRows); i++ {
		switch {
		case kind < 4:
			b.Delete(key(i))
			delete(w.now, i)
		case kind == 4 || w.rng.IntN(100) == 0:
			b.Put(key(i), []byte(value))
			w.now[i] = value
		case w.format != FormatLevelDB && w.rng.IntN(200) == 0:
			b.Merge(key(i), []byte(value))
			if w.now[i] != "" {
				w.now[i] += ","
			}
			w.now[i] += value
		}
		if w.rng.IntN(50) == 0 {
			if err := w.db.Write(b, NoSync); err != nil {
				return err
			}
			b.Clear()
		}
	}
	return w.db.Write(b, NoSync)
}

func (w *windows) hold() {
	v := &windowsView{sees: maps.Clone(w.now)}
	if w.rng.IntN(2) == 0 {
		v.snap = w.db.Snapshot()
	} else {
		v.it = w.db.Iter(nil)
	}
	w.held = append(w.held, v)
}

func (w *windows) lookHeld() {
	w.t.Helper()
	for _, v := range w.held {
		it := v.it
		if v.snap != nil {
			it = v.snap.Iter(nil)
		}
		w.look(it, v.sees)
		if v.snap != nil {
			mustAll(w.t, it.Close())
		}
	}
}

// look compares moves of an iterator with the rows that it must see.
func (w *windows) look(it *Iterator, sees map[int]string) {
	w.t.Helper()
	rows := slices.Sorted(maps.Keys(sees))
	at := -1 // in rows, -1 and len(rows): at no entry
	var moves []string
	for n := range 10 {
		var ok bool
		var move string
		valid := at >= 0 && at < len(rows)
		switch k := w.rng.IntN(windowRows); w.rng.IntN(min(4+n, 6)) {
		case 0:
			move, ok, at = "First", it.First(), 0
		case 1:
			move, ok, at = "Last", it.Last(), len(rows)-1
		case 2:
			move, ok = fmt.Sprint("SeekGE ", k), it.SeekGE(key(k))
			at, _ = slices.BinarySearch(rows, k)
		case 3:
			move, ok = fmt.Sprint("SeekLT ", k), it.SeekLT(key(k))
			at, _ = slices.BinarySearch(rows, k)
			at--
		case 4:
			move, ok = "Next", it.Next()
			if valid {
				at++
			}
		case 5:
			move, ok = "Prev", it.Prev()
			if valid {
				at--
			}
		}
		valid = at >= 0 && at < len(rows)
		moves = append(moves, fmt.Sprintf("%s: %s", move, it.Key()))
		if ok != valid || ok && (!bytes.Equal(it.Key(), key(rows[at])) ||
			string(it.Value()) != sees[rows[at]]) {
			want := "nothing"
			if valid {
				want = fmt.Sprintf("%s %s", key(rows[at]), sees[rows[at]])
			}
			w.t.Fatalf("%s is at %q %q, want %s; %v\n%q", move, it.Key(), it.Value(), want,
				it.Err(), moves)
		}
	}
}

// TestEmptiesWindows: rows come and go in windows; readers of the present, snapshots, iterators and
// transactions move about, and see what they must.
func TestEmptiesWindows(t *testing.T) {
	for round := range seed.Scale(3, 3, 100) {
		rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), uint64(round)))
		w := &windows{t: t, rng: rng, now: map[int]string{}}
		w.db = mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
			WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
			MergeOperator: MergeOperatorNamed("append")})
		for range 300 {
			mustAll(t, w.write())
			switch rng.IntN(12) {
			case 0:
				mustAll(t, w.db.Flush())
			case 1:
				if rng.IntN(4) == 0 {
					mustAll(t, w.db.CompactRange(nil, nil))
				}
			case 2:
				w.hold()
			}
			for len(w.held) > 5 {
				w.held = w.held[1:]
			}
			for range 2 {
				it := w.db.Iter(nil)
				w.look(it, w.now)
				mustAll(t, it.Close())
			}
			w.lookHeld()
			if rng.IntN(5) == 0 {
				tx, own := w.db.Begin(nil), maps.Clone(w.now)
				for range rng.IntN(60) {
					i := rng.IntN(windowRows)
					if rng.IntN(2) == 0 {
						mustAll(t, tx.Put(key(i), []byte("own")))
						own[i] = "own"
					} else {
						mustAll(t, tx.Delete(key(i)))
						delete(own, i)
					}
				}
				it := tx.Iter(nil)
				w.look(it, own)
				mustAll(t, it.Close())
				if rng.IntN(2) == 0 {
					mustAll(t, tx.Commit(NoSync))
					w.now = own
				} else {
					mustAll(t, tx.Rollback())
				}
			}
		}
		mustClose(t, w.db)
	}
}

// TestEmptiesConcurrently: while writers empty and fill windows of rows, and readers learn, each
// snapshot sees by iterators what it sees by Get.
func TestEmptiesConcurrently(t *testing.T) {
	const rows, writers = 300, 2
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
		WriteBufferSize: 256 << 10})
	defer mustClose(t, db)
	rounds := seed.Scale(seed.Brief(20, 50), 150, 30000)
	var wg sync.WaitGroup
	var done atomic.Int32
	for g := range writers {
		wg.Go(func() {
			defer done.Add(1)
			rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), uint64(g)))
			for range rounds {
				from := rng.IntN(rows)
				for i := from; i < min(from+150, rows); i++ {
					if err := db.Delete(key(i), NoSync); err != nil {
						t.Error(err)
					}
				}
				for range rng.IntN(3) {
					if err := db.Put(key(rng.IntN(rows)), nil, NoSync); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for done.Load() < writers && !t.Failed() {
				walkOver(t, db.Iter(nil))
			}
		})
	}
	wg.Go(func() {
		for done.Load() < writers && !t.Failed() {
			seesByHas(t, db.Snapshot(), rows)
		}
	})
	wg.Wait()
}

// walkOver moves an iterator over all entries, in both directions, and closes it.
func walkOver(t *testing.T, it *Iterator) {
	for ok := it.First(); ok; ok = it.Next() {
	}
	for ok := it.Last(); ok; ok = it.Prev() {
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}

// seesByHas wants iterators over a snapshot of keys below rows to see what Has sees, and closes it.
func seesByHas(t *testing.T, snap *Snapshot, rows int) {
	var gets, forward, back []string
	for i := range rows {
		if ok, err := snap.Has(key(i)); err != nil {
			t.Error(err)
		} else if ok {
			gets = append(gets, string(key(i)))
		}
	}
	it := snap.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		forward = append(forward, string(it.Key()))
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		back = append(back, string(it.Key()))
	}
	slices.Reverse(back)
	if !slices.Equal(gets, forward) || !slices.Equal(gets, back) {
		t.Errorf("Has finds %q, iterators %q and %q", gets, forward, back)
	}
	if err := errors.Join(it.Close(), snap.Close()); err != nil {
		t.Error(err)
	}
}
