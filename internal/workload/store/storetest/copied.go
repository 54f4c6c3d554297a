package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
)

func checkpoints(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{})
	db := open()
	copies, ok := db.(store.Checkpointer)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	want := fill(t, db)
	to := filepath.Join(t.TempDir(), "copy")
	check(t, copies.Checkpoint(to))
	check(t, db.Put([]byte("k0000"), []byte("later"), false))
	check(t, db.Close())
	copied, err := d.Open(to, store.Config{MustExist: true})
	check(t, err)
	states(t, copied, func() store.Store {
		db, err := d.Open(to, store.Config{MustExist: true})
		check(t, err)
		return db
	}, func(db store.Store) { compare(t, db, want) })
	check(t, d.Destroy(to))
}

func backups(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{})
	db := open()
	b, ok := db.(store.BackerUp)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	fill(t, db)
	folder, to := filepath.Join(t.TempDir(), "backups"), filepath.Join(t.TempDir(), "restored")
	check(t, b.Backup(folder))
	check(t, db.Put([]byte("k0000"), []byte("later"), false))
	check(t, b.Backup(folder))
	check(t, db.Put([]byte("k0000"), []byte("too late"), false))
	check(t, b.RestoreBackup(folder, to))
	check(t, db.Close())
	restored, err := d.Open(to, store.Config{MustExist: true})
	check(t, err)
	v, found, err := restored.Get([]byte("k0000"), nil)
	check(t, err)
	if string(v) != "later" || !found {
		t.Errorf("restored: %q, %v", v, found)
	}
	check(t, restored.Close())
	check(t, d.Destroy(to))
}

// holds checks a copy of a database as it is, flushed, compacted and opened again, and destroys it.
func holds(t *testing.T, d store.Driver, dir string, want *Table) {
	t.Helper()
	open := func() store.Store {
		db, err := d.Open(dir, store.Config{MustExist: true})
		check(t, err)
		return db
	}
	states(t, open(), open, func(db store.Store) { compare(t, db, want) })
	check(t, d.Destroy(dir))
}

func dumps(t *testing.T, d store.Driver) {
	db := opener(t, d, store.Needs{})()
	dumper, ok := db.(store.Dumper)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	want := fill(t, db)
	file, to := filepath.Join(t.TempDir(), "dump"), filepath.Join(t.TempDir(), "loaded")
	check(t, dumper.Dump(file))
	check(t, db.Put([]byte("k0000"), []byte("later"), false))
	check(t, dumper.LoadDump(file, to))
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("a dump of nothing: %v", err)
	}
	check(t, db.Close())
	holds(t, d, to, want)
}

// ingests: tables bring entries which replace those that are there, and their keys may be used again.
func ingests(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{})
	db := open()
	in, ok := db.(store.Ingester)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	dir := t.TempDir()
	want := &Table{m: map[string]string{}}
	var files []string
	for i := range 3 {
		files = append(files, filepath.Join(dir, fmt.Sprint("table", i)))
		table, err := in.NewTable(files[i])
		check(t, err)
		for n := range 500 {
			k, v := fmt.Appendf(nil, "k%04d", i*600+n), fmt.Appendf(nil, "ingested %d", n)
			check(t, table.Put(k, v))
			want.put(string(k), string(v))
			clear(k) // the driver must have copied them
			clear(v)
		}
		check(t, table.Finish())
		check(t, table.Close())
	}
	check(t, in.Ingest(files))
	for i := range 50 {
		k := fmt.Sprintf("k%04d", i*37)
		check(t, db.Put([]byte(k), []byte("after"), false))
		want.put(k, "after")
	}
	states(t, db, open, func(db store.Store) { compare(t, db, want) })
}

func bulkLoads(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{})
	db := open()
	loader, ok := db.(store.BulkLoader)
	if !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	load, err := loader.BulkLoad()
	check(t, err)
	want := &Table{m: map[string]string{}}
	for i := range 2000 {
		k, v := fmt.Appendf(nil, "k%04d", i*1237%2000), fmt.Appendf(nil, "loaded %d", i)
		check(t, load.Put(k, v))
		want.put(string(k), string(v))
		clear(k)
		clear(v)
	}
	check(t, load.Finish())
	check(t, load.Close())
	states(t, db, open, func(db store.Store) { compare(t, db, want) })

	db = open()
	load, err = db.(store.BulkLoader).BulkLoad()
	check(t, err)
	check(t, load.Put([]byte("k0000"), []byte("given up")))
	check(t, load.Close())
	compare(t, db, want)
	check(t, db.Close())
}

// changes: each write is a batch, those of a flushed memtable and of an earlier opening too.
func changes(t *testing.T, d store.Driver) {
	open := opener(t, d, store.Needs{Changes: true})
	db := open()
	if _, ok := db.(store.Changing); !ok {
		check(t, db.Close())
		t.Skipf("%s has none", d.Title())
	}
	const first, second, both = 300, 200, 500
	for i := range first {
		check(t, db.Put(fmt.Appendf(nil, "k%04d", i), []byte("value"), false))
	}
	check(t, db.Flush())
	for i := range second {
		batch := db.NewBatch()
		batch.Put(fmt.Appendf(nil, "k%04d", i), []byte("value"))
		batch.Delete(fmt.Appendf(nil, "k%04d", i+1))
		check(t, db.Write(batch, false))
	}
	feed, err := db.(store.Changing).Changes()
	check(t, err)
	var batches, operations, bytes int64
	for {
		n, ops, b, err := feed.Next(7)
		check(t, err)
		if n == 0 {
			break
		}
		if n > 7 {
			t.Fatalf("%d batches at once", n)
		}
		batches, operations, bytes = batches+n, operations+ops, bytes+b
	}
	if batches != both || operations != first+2*second || bytes < first*int64(len("k0000value")) {
		t.Errorf("%d batches of %d operations and %d bytes", batches, operations, bytes)
	}
	check(t, feed.Close())
	check(t, db.Close())
}
