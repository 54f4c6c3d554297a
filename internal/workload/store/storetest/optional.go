package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
)

// opener opens a new database, and opens it again with its contents.
func opener(t *testing.T, d store.Driver, needs store.Needs) func() store.Store {
	dir := filepath.Join(t.TempDir(), "db")
	return func() store.Store {
		t.Helper()
		db, err := d.Open(dir, store.Config{Needs: needs})
		check(t, err)
		return db
	}
}

// states calls f for the database as it is, flushed, compacted and opened again, and closes it.
func states(t *testing.T, db store.Store, open func() store.Store, f func(db store.Store)) {
	t.Helper()
	f(db)
	check(t, db.Flush())
	f(db)
	check(t, db.Compact())
	f(db)
	check(t, db.Close())
	db = open()
	f(db)
	check(t, db.Close())
}

func rangeDeletes(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{})
	db := open()
	del, ok := db.(store.RangeDeleter)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	want := fill(t, db)
	check(t, db.Flush())
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		from := rnd.IntN(2000)
		start, limit := fmt.Appendf(nil, "k%04d", from), fmt.Appendf(nil, "k%04d",
			from+rnd.IntN(60))
		check(t, del.DeleteRange(start, limit, i%20 == 0))
		for k := range want.m {
			if k >= string(start) && k < string(limit) {
				want.delete(k)
			}
		}
		clear(start) // the driver must have copied them
		clear(limit)
		k := fmt.Appendf(nil, "k%04d", rnd.IntN(2000))
		check(t, db.Put(k, []byte("after"), false))
		want.put(string(k), "after")
	}
	states(t, db, open, func(db store.Store) { compare(t, db, want) })
}

func counters(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{Counters: true})
	db := open()
	c, ok := db.(store.Counters)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	want := &Table{m: map[string]string{}}
	for i := range 2000 {
		if i == 1000 {
			check(t, db.Flush())
		}
		k, n := fmt.Appendf(nil, "k%04d", rnd.IntN(300)), rnd.Uint64N(1<<40)
		check(t, c.Add(k, n, i%500 == 0))
		if old := want.m[string(k)]; old != "" {
			n += binary.LittleEndian.Uint64([]byte(old))
		}
		want.put(string(k), string(binary.LittleEndian.AppendUint64(nil, n)))
		clear(k)
	}
	states(t, db, open, func(db store.Store) { compare(t, db, want) })
}

// keyspaces: entries of one are not in another, nor in the store itself. It is a check of what
// benchmarks write: they do not read keyspaces.
func keyspaces(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{})
	db := open()
	spaces, ok := db.(store.Keyspaced)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	check(t, db.Put([]byte("k0001"), []byte("v"), false))
	want := &Table{m: map[string]string{"k0001": "v"}}
	check(t, spaces.OpenKeyspaces(3))
	batch := db.NewBatch()
	for i := range 300 {
		spaces.PutIn(batch, i%3, fmt.Appendf(nil, "k%04d", i), bytes.Repeat([]byte{'x'}, i))
	}
	check(t, db.Write(batch, true))
	states(t, db, func() store.Store {
		db := open()
		check(t, db.(store.Keyspaced).OpenKeyspaces(4)) // one of them new
		return db
	}, func(db store.Store) { compare(t, db, want) })
}

// transactions: what is rolled back leaves no trace, and no addition is lost.
func transactions(t *testing.T, d store.Driver, needs store.Needs) {
	open := opener(t, d, needs)
	db := open()
	s, ok := db.(store.Transactional)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none of this kind", d.Title())
	}
	check(t, db.Put([]byte("k0004"), []byte("deleted"), false))
	tx, err := s.Begin(nil)
	check(t, err)
	key, value := []byte("k0001"), []byte("lost")
	check(t, tx.Put(key, value))
	clear(value)
	if v, found, err := tx.GetForUpdate(key, []byte("own ")); string(v) != "own lost" || !found ||
		err != nil {
		t.Errorf("own write: %q %v %v", v, found, err)
	}
	check(t, tx.Rollback())
	if tx, err = s.Begin(tx); err != nil {
		t.Fatal(err)
	}
	if v, found, err := tx.GetForUpdate(key, nil); found || err != nil {
		t.Errorf("what was rolled back: %q %v", v, err)
	}
	key, value = []byte("k0002"), []byte("kept")
	check(t, tx.Put(key, value))
	clear(key)
	clear(value)
	gone := []byte("k0003")
	check(t, tx.Put(gone, []byte("gone")))
	check(t, tx.Delete(gone))
	if v, found, err := tx.GetForUpdate(gone, nil); found || err != nil {
		t.Errorf("what the transaction deleted: %q %v", v, err)
	}
	key = []byte("k0004") // written before
	check(t, tx.Delete(key))
	clear(key)
	check(t, tx.Commit(true))

	const threads, times = 4, 100
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			var last store.Txn
			var err error
			for range times {
				a := rnd.IntN(2)
				for {
					if last, err = increment(s, last, fmt.Appendf(nil, "k000%d", 5+a),
						fmt.Appendf(nil, "k000%d", 6-a)); err == nil {
						break
					}
					if !errors.Is(err, store.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	n := string(binary.LittleEndian.AppendUint64(nil, threads*times))
	want := &Table{m: map[string]string{"k0002": "kept", "k0005": n, "k0006": n}}
	states(t, db, open, func(db store.Store) { compare(t, db, want) })
}

// increment adds 1 to two numbers, in one transaction.
func increment(s store.Transactional, last store.Txn, keys ...[]byte) (store.Txn, error) {
	tx, err := s.Begin(last)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		v, found, err := tx.GetForUpdate(k, nil)
		if err == nil {
			n := uint64(1)
			if found {
				n += binary.LittleEndian.Uint64(v)
			}
			err = tx.Put(k, binary.LittleEndian.AppendUint64(nil, n))
		}
		if err != nil {
			return tx, errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(false); err != nil {
		return tx, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}
