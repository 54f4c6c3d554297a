package ingests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

var ctx = context.Background()

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, o lsm.Options) *lsm.DB {
	t.Helper()
	db, err := lsm.Open(dir, &o)
	must(t, err)
	return db
}

// options have a small write buffer, so that runs and levels come early.
func options(f lsm.Format) lsm.Options {
	return lsm.Options{Format: f, WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
		CacheSize: 1 << 20}
}

// write writes a table of "key=value" puts, "key" deletions and "start..limit" range deletions.
func write(t testing.TB, path string, o lsm.Options, entries ...string) string {
	t.Helper()
	w, err := lsm.NewTableWriter(path, &o)
	must(t, err)
	for _, e := range entries {
		if start, limit, ok := strings.Cut(e, ".."); ok {
			must(t, w.DeleteRange([]byte(start), []byte(limit)))
		} else if k, v, ok := strings.Cut(e, "="); ok {
			must(t, w.Put([]byte(k), []byte(v)))
		} else {
			must(t, w.Delete([]byte(e)))
		}
	}
	must(t, w.Finish())
	return path
}

// put makes "key=value" puts.
func put(t testing.TB, db *lsm.DB, entries ...string) {
	t.Helper()
	for _, e := range entries {
		k, v, _ := strings.Cut(e, "=")
		must(t, db.Put([]byte(k), []byte(v), lsm.NoSync))
	}
}

// all lists what a database, snapshot or follower has.
func all(t testing.TB, r interface {
	Iter(o *lsm.IterOptions) *lsm.Iterator
}) string {
	t.Helper()
	var list []string
	it := r.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		list = append(list, string(it.Key())+"="+string(it.Value()))
	}
	must(t, it.Err(), it.Close())
	return strings.Join(list, " ")
}

// is compares what a database has, by iterating and key by key.
func is(t testing.TB, where string, r interface {
	Iter(o *lsm.IterOptions) *lsm.Iterator
	Get(key, dst []byte) ([]byte, error)
}, want string) {
	t.Helper()
	if got := all(t, r); got != want {
		t.Errorf("%s: %s; want %s", where, got, want)
	}
	for _, e := range strings.Fields(want) {
		k, v, _ := strings.Cut(e, "=")
		if got, err := r.Get([]byte(k), nil); err != nil || string(got) != v {
			t.Errorf("%s: %s is %q, %v; want %q", where, k, got, err, v)
		}
	}
}

// every moves tables; each nth time they replace all keys with k.
func every(n, i int) *lsm.IngestOptions {
	o := &lsm.IngestOptions{Move: true}
	if i%n == 0 {
		o.Excise = &lsm.Range{Start: []byte("k"), Limit: []byte("l")}
	}
	return o
}

func ingest(in interface {
	Ingest(ctx context.Context, o *lsm.IngestOptions, paths ...string) error
}, paths ...string) error {
	return in.Ingest(ctx, nil, paths...)
}

func names(t testing.TB, dir string) (list string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		list += e.Name() + " "
	}
	return list
}

// TestHostileTables: what is no table of a TableWriter for this keyspace is refused, and so is a
// table with any byte flipped or any part missing; the database and the file stay as they were.
func TestHostileTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 31))
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			top := t.TempDir()
			dir, o := filepath.Join(top, "db"), options(format)
			other := options(lsm.FormatNative)
			if format == lsm.FormatNative {
				other = options(lsm.FormatLevelDB)
			}
			reverse := o
			reverse.Comparer = &lsm.Comparer{Name: "test.Reverse", Compare: func(a, b []byte) int {
				return bytes.Compare(b, a)
			}}
			db := open(t, dir, o)
			defer db.Close()
			put(t, db, "a=1")
			must(t, db.Flush())
			before := names(t, dir)
			var path string
			at := func(name string) string { return filepath.Join(top, name) }
			raw := func(b []byte) string {
				path = at("raw")
				must(t, os.WriteFile(path, b, 0o600))
				return path
			}
			refuse := func(what string, is error, paths ...string) {
				t.Helper()
				err := ingest(db, paths...)
				if err == nil || is != nil && !errors.Is(err, is) {
					t.Errorf("%s: %v, want %v", what, err, is)
				}
				if got := all(t, db); got != "a=1" {
					t.Fatalf("%s: the database has %s", what, got)
				}
			}
			var entries []string
			for i := range 40 {
				entries = append(entries, fmt.Sprintf("k%03d=%d_value", i, i*i))
			}
			if format == lsm.FormatNative {
				entries = append(entries, "m..n")
			}
			good := write(t, at("good"), o, entries...)
			whole, err := os.ReadFile(good)
			must(t, err)
			refuse("no file", os.ErrNotExist, at("none"))
			refuse("a folder", nil, top)
			refuse("an empty name", lsm.ErrInvalidArgument, "")
			refuse("twice", lsm.ErrInvalidArgument, good, good)
			refuse("the other format", nil, write(t, at("other"), other, "x=1"))
			if format == lsm.FormatNative {
				refuse("another order", lsm.ErrComparerMismatch,
					write(t, at("reverse"), reverse, "x=1", "b=1"))
			} else { // such a table does not say
				refuse("another order", lsm.ErrCorruption,
					write(t, at("reverse"), reverse, "x=1", "b=1"))
			}
			refuse("overlapping", lsm.ErrInvalidArgument, good,
				write(t, at("over"), o, "k005=x", "k006=y"))
			for _, f := range strings.Fields(before) {
				if strings.HasSuffix(f, ".ldb") || strings.HasSuffix(f, ".loam") ||
					strings.HasSuffix(f, ".sst") {
					refuse("a live table", lsm.ErrInvalidArgument, filepath.Join(dir, f))
					b, err := os.ReadFile(filepath.Join(dir, f))
					must(t, err)
					refuse("a copy of a live table", lsm.ErrInvalidArgument, raw(b))
				}
			}
			refuse("nothing", nil, raw(nil))
			must(t, os.Truncate(raw(nil), 1<<30))
			refuse("a sparse file", nil, path)
			must(t, os.Truncate(raw(whole), 1<<30))
			refuse("a sparse end", nil, path)
			refuse("a hole before", nil, raw(append(make([]byte, 4096), whole...)))
			for range 40 {
				refuse("truncated", nil, raw(whole[:rng.IntN(len(whole))]))
			}
			flip(t, db, rng, whole, at("raw"), "a=1 "+strings.Join(entries, " "))
			must(t, db.Verify(ctx, nil))
			must(t, ingest(db, good))
			is(t, "in the end", db, "a=1 "+func() string {
				var l []string
				for _, e := range entries {
					if !strings.Contains(e, "..") {
						l = append(l, e)
					}
				}
				return strings.Join(l, " ")
			}())
			must(t, db.Close())
			db = open(t, dir, o)
			if n := strings.Count(names(t, dir), " ") - strings.Count(before, " "); n > 2 {
				t.Errorf("%d files more: %s; before %s", n, names(t, dir), before)
			}
			must(t, db.Close())
		})
	}
}

// flip flips bits of a table. In the native format, where the table has a range tombstone, each one
// is noticed; in LevelDB's some bytes are under no checksum, and what is ingested is right.
func flip(t *testing.T, db *lsm.DB, rng *rand.Rand, whole []byte, path, want string) {
	t.Helper()
	for range 300 {
		b := bytes.Clone(whole)
		i := rng.IntN(len(b))
		b[i] ^= 1 << rng.IntN(8)
		must(t, os.WriteFile(path, b, 0o600))
		switch err := ingest(db, path); {
		case err == nil:
			if got := all(t, db); strings.Contains(want, "..") || got != want {
				t.Fatalf("byte %d of %d flipped: ingested: %s", i, len(b), got)
			}
			for i := range 40 {
				must(t, db.Delete(fmt.Appendf(nil, "k%03d", i), lsm.NoSync))
			}
			must(t, db.CompactRange(nil, nil))
		default:
			if got := all(t, db); got != "a=1" {
				t.Fatalf("byte %d flipped, refused with %v: the database has %s", i, err, got)
			}
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
			t.Fatalf("the file changed: %v", err)
		}
	}
}

// TestThousandTables ingests a thousand tables at once, in any order, over older entries.
func TestThousandTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 32))
	mem := vfs.NewMem()
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		o := options(format)
		o.FS = mem
		db := open(t, fmt.Sprint("db", format), o)
		if format == lsm.FormatNative {
			for i := range 1000 {
				put(t, db, fmt.Sprintf("k%04d1=old", i))
			}
		}
		paths := make([]string, 1000)
		var want []string
		for i := range paths {
			e := []string{fmt.Sprintf("k%04d0=in%d", i, i), fmt.Sprintf("k%04d1=in%d", i, i)}
			want = append(want, e...)
			paths[i] = write(t, fmt.Sprintf("t%v-%d", format, i), o, e...)
		}
		rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		must(t, db.Ingest(ctx, &lsm.IngestOptions{Move: true}, paths...))
		is(t, "ingested", db, strings.Join(want, " "))
		must(t, db.CompactRange(nil, nil))
		is(t, "compacted", db, strings.Join(want, " "))
		must(t, db.Close())
		db = open(t, fmt.Sprint("db", format), o)
		is(t, "reopened", db, strings.Join(want, " "))
		must(t, db.Verify(ctx, nil), db.Close())
	}
}

// TestTransactionsConflict: an ingest is a write that transactions begun before it conflict with,
// where it has a key, or a range deletion over one, and only there.
func TestTransactionsConflict(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		for _, lock := range []bool{false, true} {
			for _, level := range []lsm.Isolation{lsm.SnapshotIsolation, lsm.Serializable} {
				mem := vfs.NewMem()
				o := options(lsm.FormatNative)
				o.FS = mem
				db := open(t, "db", o)
				put(t, db, "a=1", "c=1", "f=1", "x=1")
				if flushed {
					must(t, db.Flush())
				}
				begin := func(key, write string) *lsm.Txn {
					tx := db.Begin(&lsm.TxnOptions{Lock: lock, Isolation: level})
					_, err := tx.Get([]byte(key), nil)
					must(t, err, tx.Put([]byte(write), []byte("txn")))
					return tx
				}
				written, covered, unread, free := begin("x", "a"), begin("x", "f"), begin("c",
					"y"), begin("x", "z")
				scan := db.Begin(&lsm.TxnOptions{Lock: lock, Isolation: level})
				it := scan.Iter(&lsm.IterOptions{Lower: []byte("a"), Upper: []byte("e")})
				for ok := it.First(); ok; ok = it.Next() {
				}
				must(t, it.Close(), scan.Put([]byte("zz"), []byte("txn")))
				must(t, ingest(db, write(t, "t", o, "a=2", "b=2", "c=2", "e..g")))
				after := begin("c", "d")
				for name, c := range map[string]struct {
					tx       *lsm.Txn
					conflict bool
				}{
					"wrote a key that was ingested":        {written, true},
					"wrote a key that a range covers":      {covered, true},
					"read a key that was ingested":         {unread, level == lsm.Serializable},
					"read a range that it was ingested in": {scan, level == lsm.Serializable},
					"has nothing to do with it":            {free, false},
					"began afterwards":                     {after, false},
				} {
					if err := c.tx.Commit(lsm.NoSync); errors.Is(err, lsm.ErrConflict) !=
						c.conflict || err != nil && !c.conflict {
						t.Errorf("flushed %v, lock %v, %v: one that %s: %v", flushed, lock, level,
							name, err)
					}
				}
				must(t, db.Close())
			}
		}
	}
}

// TestConflictBehindSealed: a memtable that waits for its flush, with nothing newer than a
// transaction, does not hide an ingest from it.
func TestConflictBehindSealed(t *testing.T) {
	for _, level := range []lsm.Isolation{lsm.SnapshotIsolation, lsm.Serializable} {
		var blocked atomic.Bool
		o, mem := options(lsm.FormatNative), vfs.NewMem()
		release := make(chan struct{})
		o.FS = vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if blocked.Load() && op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, "db") {
				<-release
			}
			return out
		})
		db := open(t, "db", o)
		put(t, db, "a=1")
		must(t, db.Flush())
		table := write(t, "t", o, "a=2", "b=2")
		blocked.Store(true)
		for i := 0; db.Metrics().Memtables < 2; i++ {
			must(t, db.Put(fmt.Appendf(nil, "o%06d", i), make([]byte, 1000), lsm.NoSync))
		}
		wrote, read := db.Begin(&lsm.TxnOptions{Isolation: level}), db.Begin(
			&lsm.TxnOptions{Isolation: level})
		it := read.Iter(&lsm.IterOptions{Lower: []byte("a"), Upper: []byte("c")})
		for ok := it.First(); ok; ok = it.Next() {
		}
		must(t, it.Close(), wrote.Put([]byte("b"), nil), read.Put([]byte("c"), nil),
			ingest(db, table))
		if err := wrote.Commit(lsm.NoSync); !errors.Is(err, lsm.ErrConflict) {
			t.Errorf("%v: one that wrote an ingested key: %v", level, err)
		}
		if err := read.Commit(lsm.NoSync); errors.Is(err, lsm.ErrConflict) !=
			(level == lsm.Serializable) {
			t.Errorf("%v: one that read a range: %v", level, err)
		}
		blocked.Store(false)
		close(release)
		must(t, db.Close())
	}
}

// TestRangeTombstonesAround: range tombstones of memtables and tables below and above an ingested
// table, and in it, delete exactly the older entries.
func TestRangeTombstonesAround(t *testing.T) {
	for round := range 16 {
		o := options(lsm.FormatNative)
		o.FS = vfs.NewMem()
		db := open(t, "db", o)
		put(t, db, "a=1", "c=1", "e=1", "g=1")
		flush := func(bit int) {
			if round>>bit&1 != 0 {
				must(t, db.Flush())
			}
		}
		flush(0)
		must(t, db.DeleteRange([]byte("a"), []byte("d"), lsm.NoSync))
		flush(1)
		empty := db.Snapshot()
		must(t, ingest(db, write(t, "t", o, "b=2", "c=2", "e=2", "e..f")))
		middle := db.Snapshot()
		flush(2)
		must(t, db.DeleteRange([]byte("c"), []byte("f"), lsm.NoSync))
		put(t, db, "d=3")
		flush(3)
		check := func(where string) {
			t.Helper()
			is(t, fmt.Sprint(round, where, "before"), empty, "e=1 g=1")
			is(t, fmt.Sprint(round, where, "ingested"), middle, "b=2 c=2 e=2 g=1")
			is(t, fmt.Sprint(round, where, "after"), db, "b=2 d=3 g=1")
		}
		check("first")
		must(t, db.Flush())
		check("flushed")
		must(t, db.CompactRange(nil, nil))
		check("compacted")
		must(t, empty.Close(), middle.Close(), db.Close())
		db = open(t, "db", o)
		is(t, "reopened", db, "b=2 d=3 g=1")
		must(t, db.Close())
	}
}

// TestCopiesKeepTheNumber: checkpoints, backups, dumps, followers, repairs and exports have what
// was ingested above what is older and below what is newer.
func TestCopiesKeepTheNumber(t *testing.T) {
	const want = "a=1 b=3 c=2 d=2 e=2 g=1"
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			top := t.TempDir()
			at := func(name string) string { return filepath.Join(top, name) }
			o := options(format)
			db := open(t, at("db"), o)
			defer func() { db.Close() }()
			put(t, db, "a=1")
			if format == lsm.FormatNative {
				put(t, db, "c=1", "f=1")
			}
			must(t, db.Flush())
			put(t, db, "g=1")
			if format == lsm.FormatNative {
				must(t, ingest(db, write(t, at("t"), o, "b=2", "c=2", "d=2", "e=2", "f")))
			} else {
				must(t, ingest(db, write(t, at("t"), o, "b=2", "c=2", "d=2", "e=2")))
			}
			put(t, db, "b=3")
			is(t, "the database", db, want)
			sees := func(name string, o lsm.Options) {
				t.Helper()
				c := open(t, at(name), o)
				is(t, name, c, want)
				must(t, c.Verify(ctx, nil))
				put(t, c, "c=9")
				must(t, c.CompactRange(nil, nil))
				is(t, name+", compacted", c, strings.Replace(want, "c=2", "c=9", 1))
				must(t, c.Close())
			}
			must(t, db.Checkpoint(ctx, at("checkpoint")))
			sees("checkpoint", o)
			folder, err := backup.Open(at("backups"), nil)
			must(t, err)
			for i := range 2 {
				info, err := folder.Create(ctx, db, nil)
				must(t, err, folder.Verify(ctx, info.ID, nil),
					folder.Restore(ctx, info.ID, at(fmt.Sprint("restored", i)), nil))
				sees(fmt.Sprint("restored", i), o)
			}
			must(t, folder.Close())
			var buf bytes.Buffer
			_, err = dump.Write(ctx, db, &buf, nil)
			must(t, err)
			into := open(t, at("loaded"), o)
			_, err = dump.Load(ctx, into, &buf, nil)
			must(t, err, into.Close())
			sees("loaded", o)
			if format == lsm.FormatNative {
				f, err := lsm.OpenFollower(at("db"), nil)
				must(t, err, f.CatchUp(ctx))
				is(t, "follower", f, want)
				must(t, f.Close())
			}
			must(t, db.Close())
			other := lsm.FormatLevelDB
			if format == lsm.FormatLevelDB {
				other = lsm.FormatNative
			}
			must(t, lsm.Export(ctx, at("db"), at("exported"), other, nil, nil))
			sees("exported", options(other))
			for _, lost := range []string{"CURRENT", "MANIFEST-", ".manifest"} {
				c := open(t, at("db"), o)
				must(t, c.Checkpoint(ctx, at("lost"+lost)), c.Close())
				files, err := os.ReadDir(at("lost" + lost))
				must(t, err)
				for _, f := range files {
					if strings.HasPrefix(f.Name(), lost) || strings.HasSuffix(f.Name(), lost) {
						must(t, os.RemoveAll(filepath.Join(at("lost"+lost), f.Name())))
					}
				}
				_, err = lsm.Repair(at("lost"+lost), &o)
				must(t, err)
				sees("lost"+lost, o)
			}
			_, err = lsm.Repair(at("db"), &o)
			must(t, err)
			db = open(t, at("db"), o)
			is(t, "repaired without need", db, want)
			if format == lsm.FormatLevelDB {
				must(t, db.Close(), lsm.Upgrade(at("db"), nil))
				sees("db", options(lsm.FormatNative))
			}
		})
	}
}

// keys is how many keys each write of TestBeside has.
const keys = 20

// TestBeside ingests and loads beside writers, flushes, compactions, dropped keyspaces and, in the
// end, Close. Each ingest writes one number to all of its keys, as each batch of the writer does.
func TestBeside(t *testing.T) {
	seed := seed.Of(t)
	for round := range 3 {
		o := options(lsm.FormatNative)
		o.FS, o.WriteBufferSize = vfs.NewMem(), 64<<10
		db := open(t, "db", o)
		var wg, reader sync.WaitGroup
		over := make(chan struct{})
		closed := func(err error) bool {
			if err == nil || errors.Is(err, lsm.ErrClosed) || errors.Is(err, lsm.ErrNoKeyspace) {
				return errors.Is(err, lsm.ErrClosed)
			}
			t.Error(err)
			return true
		}
		loop := func(name string, n int, f func(i int, rng *rand.Rand) error) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(len(name)+100*round)))
				for i := range n {
					if closed(f(i, rng)) {
						return
					}
				}
			})
		}
		for id := range 2 {
			loop(fmt.Sprint("ingest", id), 150, func(i int, _ *rand.Rand) error {
				var e []string
				for k := range keys {
					e = append(e, fmt.Sprintf("k%02d=i%d-%d", k, id, i))
				}
				name := fmt.Sprintf("t%d-%d", id, i)
				return db.Ingest(ctx, every(5, i), write(t, name, o, e...))
			})
		}
		loop("load", 60, func(i int, _ *rand.Rand) error {
			return db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
				for k := range keys {
					if !yield(fmt.Appendf(nil, "k%02d", k), fmt.Appendf(nil, "l%d", i)) {
						return
					}
				}
			}, nil)
		})
		loop("batches", 2000, func(i int, _ *rand.Rand) error {
			b := lsm.NewBatch()
			for k := range keys {
				b.Put(fmt.Appendf(nil, "k%02d", k), fmt.Appendf(nil, "b%d", i))
			}
			return db.Write(b, lsm.NoSync)
		})
		loop("other writes", 5000, func(i int, rng *rand.Rand) error {
			return db.Put(fmt.Appendf(nil, "o%06d", rng.IntN(5000)), make([]byte, 100), lsm.NoSync)
		})
		loop("flushes", 60, func(int, *rand.Rand) error { return db.Flush() })
		loop("compactions", 30, func(int, *rand.Rand) error { return db.CompactRange(nil, nil) })
		loop("keyspaces", 40, func(i int, rng *rand.Rand) error {
			ks, err := db.Keyspace("side", nil)
			if err != nil {
				return err
			}
			var inner sync.WaitGroup
			inner.Go(func() {
				for n := range 3 {
					err := ingest(ks, write(t, fmt.Sprintf("s%d-%d", i, n), o, "x=1", "y=2"))
					if err != nil && !errors.Is(err, lsm.ErrNoKeyspace) &&
						!errors.Is(err, lsm.ErrClosed) {
						t.Error("in a keyspace that is dropped:", err)
					}
				}
			})
			for range rng.IntN(200) {
				if err = ks.Put([]byte("x"), []byte("w"), lsm.NoSync); err != nil {
					break
				}
			}
			err = errors.Join(err, db.DropKeyspace("side"))
			inner.Wait()
			return err
		})
		reader.Go(func() { readWhole(t, db, over, closed) })
		if round == 2 { // Close comes in between
			for range 50 {
				must(t, db.Flush())
			}
			must(t, db.Close())
		}
		wg.Wait()
		close(over)
		reader.Wait()
		if round != 2 {
			must(t, db.Close())
		}
		db = open(t, "db", o)
		if r := db.RecoveryReport(); !r.WasClean {
			t.Errorf("%+v", r)
		}
		must(t, db.Verify(ctx, nil), db.Close())
	}
}

// TestBulkLoaderOutlivesDatabase: a load that is given up when its database was closed, and opened
// again, deletes no file of it.
func TestBulkLoaderOutlivesDatabase(t *testing.T) {
	dir, o := filepath.Join(t.TempDir(), "db"), options(lsm.FormatNative)
	db := open(t, dir, o)
	l, err := db.BulkLoader(nil)
	must(t, err)
	for i := range 20000 {
		must(t, l.Put(fmt.Appendf(nil, "k%08d", i*7919%20000), make([]byte, 100)))
	}
	must(t, db.Close())
	db = open(t, dir, o)
	want := ""
	for i := range 30 {
		put(t, db, fmt.Sprintf("a%02d=1", i))
		want += fmt.Sprintf(" a%02d=1", i)
		must(t, db.Flush())
	}
	if err := l.Put([]byte("x"), nil); err != nil && !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
	if err := l.Finish(ctx); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("Finish: %v", err)
	}
	must(t, l.Close(), db.Verify(ctx, nil), db.Close())
	db = open(t, dir, o)
	is(t, "reopened", db, want[1:])
	must(t, db.Close())
}

// TestBulkLoadAfterAnInterrupt: an early end that a comparison of an earlier call asked for ends no
// load; one of the load's own does.
func TestBulkLoadAfterAnInterrupt(t *testing.T) {
	asked, own := false, false
	c := &lsm.Comparer{Name: "interrupted", EqualIsBytewise: true}
	c.Compare = func(a, b []byte) int {
		asked = asked || own
		return bytes.Compare(a, b)
	}
	c.Interrupted = func() bool { was := asked; asked = false; return was }
	o := options(lsm.FormatNative)
	o.Comparer = c
	db := open(t, filepath.Join(t.TempDir(), "db"), o)
	defer db.Close()
	for _, own = range []bool{false, true} {
		l, err := db.BulkLoader(&lsm.BulkLoadOptions{Memory: 1})
		must(t, err)
		asked = true
		for i := 0; i < 5000 && err == nil; i++ {
			err = l.Put(fmt.Appendf(nil, "k%08d", i*7919%5000), make([]byte, 1000))
			asked = asked || i == 2500
		}
		err = errors.Join(err, l.Finish(ctx), l.Close())
		if errors.Is(err, base.ErrInterrupted) != own || err != nil && !own {
			t.Errorf("interrupted by itself %v: %v", own, err)
		}
		own = false
		if n, err := db.ApproximateSizes([]lsm.Range{{}}); err != nil || n[0] == 0 {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// TestDamagedIngestIsRepaired: what Repair saves of a damaged table that was ingested stays newer
// than what the ingest found.
func TestDamagedIngestIsRepaired(t *testing.T) {
	top := t.TempDir()
	dir, o := filepath.Join(top, "db"), options(lsm.FormatNative)
	db := open(t, dir, o)
	const n = 200
	var entries []string
	for i := range n {
		put(t, db, fmt.Sprintf("k%03d=old", i))
		entries = append(entries, fmt.Sprintf("k%03d=new%s", i, strings.Repeat(fmt.Sprint(i), 200)))
	}
	must(t, db.Flush())
	table := write(t, filepath.Join(top, "table"), o, entries...)
	must(t, ingest(db, table), db.Close())
	b, err := os.ReadFile(table) // a link: the database's, too
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(table, b, 0o600))
	report, err := lsm.Repair(dir, &o)
	must(t, err)
	if len(report.Dropped) == 0 {
		t.Errorf("nothing was dropped: %+v", report)
	}
	db = open(t, dir, o)
	// which goes by sequence numbers, not by levels
	for _, when := range []string{"repaired", "compacted"} {
		newer := 0
		for i := range n {
			v, err := db.Get(fmt.Appendf(nil, "k%03d", i), nil)
			must(t, err)
			if strings.HasPrefix(string(v), "new") {
				newer++
			}
		}
		if newer < n/2 || newer == n {
			t.Errorf("%s: %d of %d values are those of the ingest", when, newer, n)
		}
		must(t, db.CompactRange(nil, nil))
	}
	must(t, db.Verify(ctx, nil), db.Close())
}

// TestExciseGoesDeep: tables that come in place of what a deep level has do not go to level 0, and
// hide it.
func TestExciseGoesDeep(t *testing.T) {
	top := t.TempDir()
	o := options(lsm.FormatNative)
	o.Compression = lsm.NoCompression // more than a write buffer
	db := open(t, filepath.Join(top, "db"), o)
	const n = 4000
	must(t, db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
		for i := range n {
			if !yield(fmt.Appendf(nil, "k%06d", i), fmt.Appendf(make([]byte, 100), "old%d", i)) {
				return
			}
		}
	}, nil))
	entries := make([]string, 0, n/4)
	for i := n / 4; i < n/2; i++ { // every second one of the range that is excised
		entries =
			append(entries,
				fmt.Sprintf("k%06d=%s", i/2*2, strings.Repeat(fmt.Sprint("new", i), 30)))
	}
	entries = slices.CompactFunc(entries, func(a, b string) bool { return a[:7] == b[:7] })
	table := write(t, filepath.Join(top, "table"), o, entries...)
	excise := &lsm.Range{Start: fmt.Appendf(nil, "k%06d", n/4),
		Limit: fmt.Appendf(nil, "k%06d", n/2)}
	must(t, db.Ingest(ctx, &lsm.IngestOptions{Excise: excise}, table))
	if l := db.Metrics().Levels; l[0].Files != 0 {
		t.Errorf("level 0 has %d tables", l[0].Files)
	}
	for _, when := range []string{"at once", "compacted"} {
		old, newer := 0, 0
		var err error
		for key, value := range db.All(nil, nil, &err) {
			in := string(key) >= string(excise.Start) && string(key) < string(excise.Limit)
			if in != strings.HasPrefix(string(value), "new") {
				t.Fatalf("%s: %s has %.10q", when, key, value)
			}
			if in {
				newer++
			} else {
				old++
			}
		}
		must(t, err)
		if old != n*3/4 || newer != n/8 {
			t.Errorf("%s: %d old ones, want %d; %d of the table, want %d", when, old, n*3/4, newer,
				n/8)
		}
		must(t, db.CompactRange(nil, nil))
	}
	must(t, db.Close())
}
