package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

func txnDB(t testing.TB) *DB {
	t.Helper()
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	t.Cleanup(func() {
		if m := db.Metrics(); m.ReadOnly == nil && (m.Snapshots != 0 || m.Txn.Locks != 0) {
			t.Errorf("left over: %d snapshots, %d locks", m.Snapshots, m.Txn.Locks)
		}
		if err := db.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

func mustGet(t testing.TB, r interface {
	Get(key, dst []byte) ([]byte, error)
}, key string) string {
	t.Helper()
	v, err := r.Get([]byte(key), nil)
	if errors.Is(err, ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func mustAll(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTxnReads: own writes lie over the snapshot in every kind of read.
func TestTxnReads(t *testing.T) {
	db := txnDB(t)
	for _, k := range []string{"a", "b", "c"} {
		mustAll(t, db.Put([]byte(k), []byte(k+"0"), NoSync))
	}
	tx := db.Begin(nil)
	defer tx.Rollback()
	mustAll(t, tx.Put([]byte("b"), []byte("b1")), tx.Delete([]byte("c")), tx.Put([]byte("d"), nil))
	mustAll(t, db.Put([]byte("a"), []byte("a2"), NoSync), db.Put([]byte("z"), nil, NoSync))
	for k, want := range map[string]string{"a": "a0", "b": "b1", "c": "none", "d": "",
		"z": "none"} {
		if got := mustGet(t, tx, k); got != want {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
		if has, err := tx.Has([]byte(k)); err != nil || has != (want != "none") {
			t.Errorf("%s: Has %v %v", k, has, err)
		}
	}
	var r MultiResult
	mustAll(t, tx.MultiGet([][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")}, &r))
	var got []string
	for i := range r.Len() {
		v, ok := r.Value(i)
		got = append(got, fmt.Sprintf("%s %v", v, ok))
	}
	if s := strings.Join(got, ", "); s != "a0 true, b1 true,  false,  true" {
		t.Error(s)
	}
	it := tx.Iter(nil)
	mustAll(t, tx.Put([]byte("e"), []byte("later")), tx.Delete([]byte("b")))
	if s := forward(it); s != "a=a0 b=b1 d=" {
		t.Error(s)
	}
	if s := back(it); s != "d= b=b1 a=a0" {
		t.Error(s)
	}
	if it.SeekGE([]byte("c")); string(it.Key()) != "d" {
		t.Errorf("%q", it.Key())
	}
	if it.SeekLT([]byte("c")); string(it.Key()) != "b" || !it.Next() || string(it.Key()) != "d" ||
		!it.Prev() || string(it.Key()) != "b" {
		t.Errorf("%q", it.Key())
	}
	mustAll(t, tx.Commit(Sync))
	if s := forward(it); s != "a=a0 b=b1 d=" {
		t.Errorf("after the commit: %s", s)
	}
	mustAll(t, it.Close())
	var err error
	var all []string
	for k, v := range db.All(nil, nil, &err) {
		all = append(all, string(k)+"="+string(v))
	}
	if s := strings.Join(all, " "); s != "a=a2 d= e=later z=" || err != nil {
		t.Error(s, err)
	}
}

func forward(it *Iterator) string {
	var s []string
	for ok := it.First(); ok; ok = it.Next() {
		s = append(s, string(it.Key())+"="+string(it.Value()))
	}
	if it.Err() != nil {
		return it.Err().Error()
	}
	return strings.Join(s, " ")
}

func back(it *Iterator) string {
	var s []string
	for ok := it.Last(); ok; ok = it.Prev() {
		s = append(s, string(it.Key())+"="+string(it.Value()))
	}
	return strings.Join(s, " ")
}

// TestTxnModel walks through random transactions beside a map, savepoints, iterators with
// turns, bounds and blocks included. The database has tables and memtables under them.
func TestTxnModel(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	db := txnDB(t)
	model := map[string]string{}
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for round := range rounds {
		if err := modelTxn(rng, db, model, round); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if rng.IntN(6) == 0 {
			mustAll(t, db.Flush())
		}
	}
}

func clone(m map[string]string) map[string]string {
	c := make(map[string]string, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func modelTxn(rng *rand.Rand, db *DB, committed map[string]string, round int) error {
	tx := db.Begin(&TxnOptions{Isolation: Isolation(rng.IntN(2)), Lock: rng.IntN(3) == 0})
	defer tx.Rollback()
	model := clone(committed)
	type mark struct {
		s SavePoint
		m map[string]string
	}
	var marks []mark
	key := func() string { return fmt.Sprintf("%03d", rng.IntN(300)) }
	for i := range 100 {
		k := key()
		switch op := rng.IntN(20); {
		case op < 8:
			v := fmt.Sprintf("%d.%d.%0*d", round, i, 1+rng.IntN(100), 0)
			model[k] = v
			if err := tx.Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		case op < 11:
			delete(model, k)
			if err := tx.Delete([]byte(k)); err != nil {
				return err
			}
		case op < 12:
			marks = append(marks, mark{tx.SavePoint(), clone(model)})
		case op < 13 && len(marks) > 0:
			n := rng.IntN(len(marks))
			if err := tx.RollbackTo(marks[n].s); err != nil {
				return err
			}
			if n+1 < len(marks) {
				if err := tx.RollbackTo(marks[n+1].s); !errors.Is(err, ErrInvalidArgument) {
					return fmt.Errorf("a savepoint that was taken back: %v", err)
				}
			}
			model, marks = clone(marks[n].m), marks[:n+1]
		case op < 16:
			v, err := tx.Get([]byte(k), nil)
			if want, ok := model[k]; ok != (err == nil) || want != string(v) {
				return fmt.Errorf("get %s: %q %v, want %q", k, v, err, want)
			}
		default:
			lo, hi := key(), key()
			if err := modelScan(rng, tx, model, min(lo, hi), max(lo, hi)); err != nil {
				return err
			}
		}
	}
	if rng.IntN(4) == 0 {
		return tx.Rollback()
	}
	if err := tx.Commit(WriteMode(rng.IntN(2))); err != nil {
		return err
	}
	clear(committed)
	for k, v := range model {
		committed[k] = v
	}
	return nil
}

func modelScan(rng *rand.Rand, tx *Txn, model map[string]string, lo, hi string) error {
	var want []string
	for i := range 300 {
		k := fmt.Sprintf("%03d", i)
		if v, ok := model[k]; ok && lo <= k && k < hi {
			want = append(want, k+"="+v)
		}
	}
	it := tx.Iter(&IterOptions{Lower: []byte(lo), Upper: []byte(hi)})
	defer it.Close()
	if got := forward(it); got != strings.Join(want, " ") {
		return fmt.Errorf("%s..%s: %s, want %v", lo, hi, got, want)
	}
	// A walk with turns.
	at, ok := -1, false
	for range 30 {
		switch rng.IntN(5) {
		case 0:
			at, ok = 0, it.First()
		case 1:
			at, ok = len(want)-1, it.Last()
		case 2, 3:
			if ok {
				at, ok = at+1, it.Next()
			}
		default:
			if ok {
				at, ok = at-1, it.Prev()
			}
		}
		there := at >= 0 && at < len(want)
		if ok != there || ok && string(it.Key())+"="+string(it.Value()) != want[at] {
			return fmt.Errorf("%s..%s: at %d of %d: %v %q: %v", lo, hi, at, len(want), ok, it.Key(),
				it.Err())
		}
	}
	it.First()
	block, n := it.NextBlock(nil, 0, 0)
	for i := range n {
		k, v := binary.LittleEndian.Uint32(block), binary.LittleEndian.Uint32(block[4:])
		if got := string(block[8:8+k]) + "=" + string(block[8+k:8+k+v]); got != want[i] {
			return fmt.Errorf("block: %q, want %q", got, want[i])
		}
		block = block[8+k+v:]
	}
	if n != len(want) {
		return fmt.Errorf("a block of %d entries, want %d", n, len(want))
	}
	return it.Err()
}

// TestConflictNamesKey finds the newer entry wherever it is: in the memtable, in a sealed one
// or in a table, and after compactions have taken away what was there before.
func TestConflictNamesKey(t *testing.T) {
	for _, where := range []string{"memtable", "table", "compacted", "deleted and compacted"} {
		for _, level := range []Isolation{SnapshotIsolation, Serializable} {
			db := txnDB(t)
			for i := range 100 {
				mustPut(t, db, i)
			}
			mustAll(t, db.CompactRange(nil, nil))
			tx := db.Begin(&TxnOptions{Isolation: level})
			other := db.Begin(&TxnOptions{Isolation: level})
			if level == Serializable {
				it := tx.Iter(&IterOptions{Lower: key(5), Upper: key(9)})
				forward(it)
				mustAll(t, it.Close())
			} else if _, err := tx.GetForUpdate(key(7), nil); err != nil {
				t.Fatal(err)
			}
			it := other.Iter(&IterOptions{Lower: key(8), Upper: key(12)})
			forward(it)
			mustAll(t, it.Close(), other.Put(key(50), nil), tx.Put(key(60), nil))
			if where == "deleted and compacted" {
				mustAll(t, db.Delete(key(7), NoSync))
			} else {
				mustAll(t, db.Put(key(7), []byte("new"), NoSync))
			}
			if where != "memtable" {
				mustAll(t, db.Flush())
			}
			if strings.HasSuffix(where, "compacted") {
				mustAll(t, db.CompactRange(nil, nil))
			}
			err := tx.Commit(NoSync)
			var c *ConflictError
			if !errors.Is(err, ErrConflict) || !errors.As(err, &c) || !bytes.Equal(c.Key, key(7)) ||
				!strings.Contains(err.Error(), string(key(7))) {
				t.Errorf("%s: %v", where, err)
			}
			if err := other.Commit(NoSync); err != nil {
				t.Errorf("%s: a transaction that has nothing to do with it: %v", where, err)
			}
			if has, _ := db.Has(key(60)); !has {
				t.Error("what the failed one wrote over is gone")
			}
		}
	}
}

// TestTxnEnds: what each call answers after the end, and on the wrong object.
func TestTxnEnds(t *testing.T) {
	db, foreign := txnDB(t), txnDB(t)
	calls := map[string]func(tx *Txn) error{
		"Get":    func(tx *Txn) error { _, err := tx.Get([]byte("k"), nil); return err },
		"TryGet": func(tx *Txn) error { _, err := tx.TryGet([]byte("k"), nil); return err },
		"GetNoFill": func(tx *Txn) error {
			_, err := tx.GetNoFill([]byte("k"), nil)
			return err
		},
		"GetForUpdate": func(tx *Txn) error {
			_, err := tx.GetForUpdate([]byte("k"), nil)
			return err
		},
		"Has": func(tx *Txn) error { _, err := tx.Has([]byte("k")); return err },
		"MultiGet": func(tx *Txn) error {
			return tx.MultiGet([][]byte{[]byte("k")}, &MultiResult{})
		},
		"Put":    func(tx *Txn) error { return tx.Put([]byte("k"), nil) },
		"Delete": func(tx *Txn) error { return tx.Delete([]byte("k")) },
		"Iter":   func(tx *Txn) error { it := tx.Iter(nil); it.First(); return it.Close() },
		"All": func(tx *Txn) (err error) {
			for range tx.All(nil, nil, &err) {
			}
			return err
		},
		"RollbackTo": func(tx *Txn) error { return tx.RollbackTo(tx.SavePoint()) },
		"Commit":     func(tx *Txn) error { return tx.Commit(NoSync) },
	}
	for name, call := range calls {
		for _, end := range []func(tx *Txn) error{(*Txn).Rollback, func(tx *Txn) error {
			return tx.Commit(NoSync)
		}} {
			tx := db.Begin(nil)
			mustAll(t, tx.Put([]byte("k"), nil), end(tx))
			if err := call(tx); !errors.Is(err, ErrTxnDone) {
				t.Errorf("%s after the end: %v", name, err)
			}
			mustAll(t, tx.Rollback())
		}
		tx := foreign.Begin(&TxnOptions{Isolation: 7})
		if err := call(tx); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s with an unknown isolation: %v", name, err)
		}
		mustAll(t, tx.Rollback())
	}
	tx, other := db.Begin(nil), foreign.Begin(nil)
	s := other.SavePoint()
	if err := tx.RollbackTo(s); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a foreign savepoint: %v", err)
	}
	it := tx.Iter(nil)
	mustAll(t, tx.Put([]byte("x"), nil))
	mark := tx.SavePoint()
	mustAll(t, tx.Put([]byte("y"), nil))
	seen := tx.Iter(nil)
	mustAll(t, tx.RollbackTo(mark))
	if s := forward(it); strings.Contains(s, "rolled") {
		t.Error(s)
	}
	if seen.First() || !errors.Is(seen.Err(), ErrInvalidArgument) {
		t.Errorf("an iterator whose writes were taken back: %v", seen.Err())
	}
	mustAll(t, it.Close())
	_ = seen.Close()
	if err := db.View(func(tx *Txn) error {
		return tx.Put(nil, nil)
	}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a write in View: %v", err)
	}
	if err := tx.MultiGet(nil, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	mustAll(t, other.Rollback(), db.Close())
	for name, call := range calls {
		if err := call(db.Begin(nil)); !errors.Is(err, ErrClosed) && name != "Commit" &&
			name != "RollbackTo" {
			t.Errorf("%s on a closed database: %v", name, err)
		}
	}
	if err := tx.Commit(NoSync); !errors.Is(err, ErrClosed) {
		t.Errorf("a commit after Close: %v", err)
	}
	mustAll(t, tx.Rollback())
}

func TestUpdate(t *testing.T) {
	db := txnDB(t)
	// nolint: a nil context is the test
	if err := db.Update(nil, func(*Txn) error { return nil }); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	ctx := context.Background()
	if err := db.Update(ctx, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	mine := errors.New("mine")
	if err := db.Update(ctx, func(tx *Txn) error {
		return errors.Join(tx.Put([]byte("k"), nil), mine)
	}); !errors.Is(err, mine) {
		t.Error(err)
	}
	func() {
		defer func() { recover() }()
		_ = db.Update(ctx, func(tx *Txn) error { _ = tx.Put([]byte("k"), nil); panic("f") })
	}()
	if has, err := db.Has([]byte("k")); has || err != nil {
		t.Error(has, err)
	}
	// A conflict in each attempt, until the context ends.
	ctx, cancel := context.WithCancel(ctx)
	tries := 0
	err := db.Update(ctx, func(tx *Txn) error {
		if tries++; tries == 5 {
			cancel()
		}
		mustAll(t, db.Put([]byte("k"), nil, NoSync))
		return tx.Put([]byte("k"), []byte("tx"))
	})
	if !errors.Is(err, ErrConflict) || !errors.Is(err, context.Canceled) || tries != 5 {
		t.Error(tries, err)
	}
	if err := db.Update(ctx, func(*Txn) error {
		t.Error("called")
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if m := db.Metrics().Txn; m.Conflicts != 5 || m.Committed != 0 || m.Begun == 0 {
		t.Errorf("%+v", m)
	}
}

// TestCounters: 8 goroutines add to the same counters in every way there is, and no addition
// is lost.
func TestCounters(t *testing.T) {
	ways := map[string]func(db *DB, k []byte) error{
		"optimistic": func(db *DB, k []byte) error {
			return db.Update(context.Background(), func(tx *Txn) error {
				return increment(tx.Get, tx, k)
			})
		},
		"for update": func(db *DB, k []byte) error {
			return db.Update(context.Background(), func(tx *Txn) error {
				return increment(tx.GetForUpdate, tx, k)
			})
		},
		"locks": func(db *DB, k []byte) error {
			return db.UpdateWith(context.Background(), &TxnOptions{Lock: true, Mode: Sync},
				func(tx *Txn) error { return increment(tx.GetForUpdate, tx, k) })
		},
		"swap": func(db *DB, k []byte) error {
			for {
				old, err := db.Get(k, nil)
				if errors.Is(err, ErrNotFound) {
					old, err = nil, nil
				}
				if err != nil {
					return err
				}
				if ok, err := db.CompareAndSwap(k, old, plusOne(old), NoSync); ok || err != nil {
					return err
				}
			}
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			db := txnDB(t)
			const clients, each, keys = 8, 100, 3
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					for i := range each {
						if err := way(db, key((c+i)%keys)); err != nil {
							t.Error(err)
						}
						if i%40 == 0 {
							_ = db.Flush()
						}
					}
				})
			}
			wg.Wait()
			sum := uint64(0)
			for i := range keys {
				v, err := db.Get(key(i), nil)
				mustAll(t, err)
				sum += binary.LittleEndian.Uint64(v)
			}
			if sum != clients*each {
				t.Errorf("%d, want %d", sum, clients*each)
			}
			t.Logf("%+v", db.Metrics().Txn)
		})
	}
}

func plusOne(old []byte) []byte {
	n := uint64(0)
	if len(old) == 8 {
		n = binary.LittleEndian.Uint64(old)
	}
	return binary.LittleEndian.AppendUint64(nil, n+1)
}

func increment(get func(key, dst []byte) ([]byte, error), tx *Txn, k []byte) error {
	old, err := get(k, nil)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return tx.Put(k, plusOne(old))
}

func TestCompareAndSwap(t *testing.T) {
	db := txnDB(t)
	k := []byte("k")
	for i, c := range []struct {
		old, value []byte
		swapped    bool
		then       string
	}{
		{[]byte("x"), []byte("a"), false, "none"},
		{[]byte{}, []byte("a"), false, "none"},
		{nil, []byte("a"), true, "a"},
		{nil, []byte("b"), false, "a"},
		{[]byte("a"), []byte{}, true, ""},
		{[]byte{}, []byte("c"), true, "c"},
		{[]byte("d"), nil, false, "c"},
		{[]byte("c"), nil, true, "none"},
		{nil, nil, true, "none"},
	} {
		swapped, err := db.CompareAndSwap(k, c.old, c.value, NoSync)
		if err != nil || swapped != c.swapped || mustGet(t, db, "k") != c.then {
			t.Errorf("%d: %v %v, then %q", i, swapped, err, mustGet(t, db, "k"))
		}
	}
	for i, want := range []bool{true, false} {
		if put, err := db.PutIfAbsent(k, nil, Sync); put != want || err != nil {
			t.Error(i, put, err)
		}
	}
}
