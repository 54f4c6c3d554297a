package lsm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/internal/tree"
)

// TestFollower follows a writer through everything that changes files, and compares after each
// CatchUp, in both formats. Without a CatchUp nothing changes.
func TestFollower(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		for n := range uint64(seed.Scale(1, 2, 4)) {
			t.Run(fmt.Sprint(format, n+1), func(t *testing.T) {
				dir := t.TempDir()
				w := followedWriter{t: t, dir: dir, format: format,
					rng: rand.New(rand.NewPCG(n+1, 0)), want: map[string]string{}}
				w.open()
				f, err := OpenFollower(dir, nil)
				must(t, err)
				for range 300 {
					w.step()
					if w.rng.IntN(3) == 0 {
						must(t, f.CatchUp(context.Background()))
						w.compare(f, w.want)
					}
				}
				must(t, f.Close())
				if err := f.CatchUp(context.Background()); !errors.Is(err, base.ErrClosed) {
					t.Error(err)
				}
				must(t, w.db.Close())
			})
		}
	}
}

type followedWriter struct {
	t      *testing.T
	dir    string
	format Format
	rng    *rand.Rand
	db     *DB
	want   map[string]string
}

func (w *followedWriter) open() {
	db, err := Open(w.dir, &Options{Format: w.format, WriteBufferSize: 64 << 10,
		MaxFileSize: 64 << 10})
	must(w.t, err)
	w.db = db
}

func (w *followedWriter) step() {
	switch op := w.rng.IntN(100); {
	case op < 80:
		for range w.rng.IntN(50) {
			k := fmt.Sprintf("key%05d", w.rng.IntN(2000))
			if w.rng.IntN(4) == 0 {
				must(w.t, w.db.Delete([]byte(k), NoSync))
				delete(w.want, k)
				continue
			}
			v := fmt.Sprint(w.rng.Uint64(), string(make([]byte, w.rng.IntN(300))))
			must(w.t, w.db.Put([]byte(k), []byte(v), NoSync))
			w.want[k] = v
		}
	case op < 90:
		must(w.t, w.db.Flush())
	case op < 96:
		must(w.t, w.db.CompactRange(nil, nil))
	default:
		must(w.t, w.db.Close())
		w.open()
	}
}

func (w *followedWriter) compare(r Reader, want map[string]string) {
	w.t.Helper()
	n := 0
	it := r.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		n++
		if v, ok := want[string(it.Key())]; !ok || v != string(it.Value()) {
			w.t.Fatalf("%s is %.20q, not %.20q", it.Key(), it.Value(), v)
		}
	}
	must(w.t, it.Close())
	if n != len(want) {
		w.t.Fatalf("%d keys of %d", n, len(want))
	}
}

// TestFollowerMemTables: where a follower's memtables are as large as its writer's, one holds what
// a log has, so that the next one gets its memory. What is in tables has no memtable.
func TestFollowerMemTables(t *testing.T) {
	dir := t.TempDir()
	o := &Options{WriteBufferSize: 64 << 10}
	db, err := Open(dir, o)
	must(t, err)
	f, err := OpenFollower(dir, o)
	must(t, err)
	value := make([]byte, 100)
	for i := range 5000 {
		must(t, db.Put(fmt.Appendf(nil, "key%06d", i), value, NoSync))
		if i%100 != 0 {
			continue
		}
		must(t, f.CatchUp(context.Background()))
		s := f.engine.Default().Tree.Acquire()
		logs := map[uint64]bool{s.FirstLog: true}
		for _, m := range s.Sealed {
			if logs[m.FirstLog] {
				t.Fatalf("after %d keys log %d has two memtables", i, m.FirstLog)
			}
			logs[m.FirstLog] = true
		}
		s.Unref()
	}
	must(t, db.Flush())
	must(t, f.CatchUp(context.Background()))
	if entries, sealed := memTablesOf(f.engine.Default().Tree); entries > 0 || sealed > 0 {
		t.Errorf("%d entries and %d memtables are left, all of which are in tables", entries,
			sealed)
	}
	must(t, errors.Join(f.Close(), db.Close()))
}

// TestFollowerFirstExpiring: the first values of a keyspace that expire come to a follower by a
// catch-up that adds entries to its memtables and changes nothing else.
func TestFollowerFirstExpiring(t *testing.T) {
	needsNative(t)
	dir, now := t.TempDir(), int64(1_000_000)
	o := &Options{Clock: func() time.Time { return time.Unix(now, 0) }}
	db, err := Open(dir, o)
	must(t, err)
	defer db.Close()
	must(t, db.Put([]byte("a"), []byte("1"), NoSync))
	f, err := OpenFollower(dir, o)
	must(t, err)
	defer f.Close()
	must(t, db.PutTTL([]byte("b"), []byte("2"), 5*time.Second, NoSync))
	must(t, f.CatchUp(context.Background()))
	if left, expires, err := f.TTL([]byte("b")); left != 5*time.Second || !expires || err != nil {
		t.Errorf("%v, %v, %v", left, expires, err)
	}
	now += 10
	if v, err := f.Get([]byte("b"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("an expired value: %q, %v", v, err)
	}
}

// memTablesOf counts the entries of the memtable that takes writes, and the sealed ones.
func memTablesOf(t *tree.Tree) (entries, sealed int) {
	s := t.Acquire()
	defer s.Unref()
	return s.Mem.Len(), len(s.Sealed)
}
