package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestIntoTable: all that a table can have arrives in it, and nothing else is taken.
func TestIntoTable(t *testing.T) {
	dir := t.TempDir()
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	must(t, err)
	defer db.Close()
	space, err := db.Keyspace("space", nil)
	must(t, err, db.Put([]byte("b"), []byte("old"), lsm.NoSync),
		db.Put([]byte("x"), []byte("old"), lsm.NoSync))
	table := filepath.Join(dir, "table")
	w, err := lsm.NewTableWriter(table, nil)
	must(t, err)
	defer w.Close()
	b := lsm.NewBatch()
	b.Put([]byte("a"), []byte("1"))
	b.Delete([]byte("b"))
	b.PutTTL([]byte("c"), []byte("2"), time.Hour)
	b.DeleteRange([]byte("w"), []byte("z"))
	must(t, IntoTable(w, b.Bytes()))
	for what, fill := range map[string]func(b *lsm.Batch){
		"a merge":                    func(b *lsm.Batch) { b.Merge([]byte("k"), nil) },
		"an operation of a keyspace": func(b *lsm.Batch) { b.In(space).Put([]byte("k"), nil) },
		"a key that does not ascend": func(b *lsm.Batch) { b.Put([]byte("a"), nil) },
	} {
		b.Clear()
		fill(b)
		if err := IntoTable(w, b.Bytes()); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := IntoTable(w, []byte("no batch")); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Errorf("other bytes: %v", err)
	}
	must(t, w.Finish(), db.Ingest(context.Background(), nil, table))
	is(t, db, "a=1 c=2")
	if left, expires, err := db.TTL([]byte("c")); err != nil || !expires || left <= 0 ||
		left > time.Hour+time.Second {
		t.Errorf("c lives %v, %v, %v", left, expires, err)
	}
}

// TestIntoBulkLoad: puts are loaded, and nothing else.
func TestIntoBulkLoad(t *testing.T) {
	db, err := lsm.Open(filepath.Join(t.TempDir(), "db"), nil)
	must(t, err)
	defer db.Close()
	l, err := db.BulkLoader(nil)
	must(t, err)
	defer l.Close()
	b := lsm.NewBatch()
	b.Put([]byte("b"), []byte("1"))
	b.Put([]byte("a"), []byte("2"))
	must(t, IntoBulkLoad(l, b.Bytes()))
	for what, fill := range map[string]func(b *lsm.Batch){
		"a deletion":           func(b *lsm.Batch) { b.Delete([]byte("a")) },
		"a range":              func(b *lsm.Batch) { b.DeleteRange([]byte("a"), []byte("b")) },
		"a value that expires": func(b *lsm.Batch) { b.PutTTL([]byte("a"), nil, time.Hour) },
	} {
		b.Clear()
		fill(b)
		if err := IntoBulkLoad(l, b.Bytes()); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, l.Finish(context.Background()))
	is(t, db, "a=2 b=1")
}

// is wants the database to have the entries "key=value".
func is(t *testing.T, db *lsm.DB, want string) {
	t.Helper()
	var err error
	var got []string
	for key, value := range db.All(nil, nil, &err) {
		got = append(got, fmt.Sprintf("%s=%s", key, value))
	}
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
