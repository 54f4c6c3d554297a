package lsm

import (
	"bytes"
	"errors"
	"testing"
)

func TestReopenKeepsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, small(Options{}))
	const n = 20_000
	putKeys(t, db, n)
	for i := 0; i < n; i += 3 {
		if err := db.Delete(key(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		for i := range n {
			if i%3 == 0 {
				wantMissing(t, db, i)
			} else {
				wantValue(t, db, i)
			}
		}
		got := 0
		var err error
		for k, v := range db.All(nil, nil, &err) {
			for got%3 == 0 {
				got++
			}
			if !bytes.Equal(k, key(got)) || !bytes.Equal(v, value(got)) {
				t.Fatalf("at %d: %q = %q", got, k, v)
			}
			got++
		}
		if err != nil || got != n && got != n-1 {
			t.Fatalf("scan ended at %d: %v", got, err)
		}
	}
	check()
	mustClose(t, db)
	db = mustOpen(t, dir, small(Options{}))
	check()
	mustCompact(t, db)
	check()
	mustClose(t, db)
	db = mustOpen(t, dir, &Options{ReadOnly: true})
	check()
	if err := db.Put(key(0), nil, NoSync); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("put on a read-only database: %v", err)
	}
	mustClose(t, db)
}

func TestOperationsDoNotAllocate(t *testing.T) {
	db := mustOpen(t, t.TempDir(), nil)
	defer db.Close()
	const n = 10_000
	putKeys(t, db, n)
	mustCompact(t, db)
	for i := range n / 2 { // half in the memtable, half in tables
		mustPut(t, db, 2*i)
	}
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key(i)
	}
	it := db.Iter(nil)
	defer it.Close()
	it.First()
	batch := NewBatch()
	var multi MultiResult
	buf := make([]byte, 0, 256)
	val := value(5)
	i := 0
	next := func() []byte { i++; return keys[i*7%n] }
	for i := range n {
		buf, _ = db.Get(keys[i], buf[:0]) // fill the cache
	}
	for _, c := range []struct {
		name string
		op   func()
	}{
		{"Get", func() { buf, _ = db.Get(next(), buf[:0]) }},
		{"Get missing", func() { db.Get(keys[0][:4], buf[:0]) }},
		{"Has", func() { db.Has(next()) }},
		{"Put", func() { db.Put(next(), val, NoSync) }},
		{"Delete", func() { db.Delete(keys[0][:5], NoSync) }},
		{"Write", func() {
			batch.Clear()
			batch.Put(next(), val)
			batch.Put(next(), val)
			db.Write(batch, NoSync)
		}},
		{"Next", func() {
			if !it.Next() {
				it.First()
			}
		}},
		{"Prev", func() {
			if !it.Prev() {
				it.Last()
			}
		}},
		{"SeekGE", func() { it.SeekGE(next()) }},
		{"MultiGet", func() { db.MultiGet(keys[:32], &multi) }},
	} {
		c.op()
		if got := testing.AllocsPerRun(1000, c.op); got > 0 {
			t.Errorf("%s: %v allocations", c.name, got)
		}
	}
}
