package storetest

import (
	"errors"
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

// ingests: tables bring entries which replace those that are there, and their keys may be used
// again.
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

// followers: in this process, beside a writer that flushes.
func followers(t *testing.T, d store.Driver) {
	followed, ok := d.(store.Followed)
	if !ok {
		t.Skipf("%s has none", d.Title())
	}
	dir := filepath.Join(t.TempDir(), "db")
	db, err := d.Open(dir, store.Config{})
	check(t, err)
	check(t, db.Put([]byte("k0000"), []byte("first"), false))
	f, err := followed.OpenFollower(dir, filepath.Join(t.TempDir(), "own"),
		store.Config{MustExist: true})
	check(t, err)
	shows := func(key, want string) {
		t.Helper()
		v, found, err := f.Get([]byte(key), []byte("before"))
		check(t, err)
		if found != (want != "") || string(v) != "before"+want {
			t.Errorf("%s: %q, %v", key, v, found)
		}
	}
	check(t, f.CatchUp())
	shows("k0000", "first")
	check(t, db.Put([]byte("k0001"), []byte("second"), false))
	check(t, db.Flush())
	check(t, db.Put([]byte("k0000"), []byte("third"), false))
	shows("k0000", "first")
	shows("k0001", "")
	check(t, f.CatchUp())
	shows("k0000", "third")
	shows("k0001", "second")
	check(t, f.Close())
	check(t, db.Close())
}

// sharedMemory: databases that share it are databases of their own, and may be closed in any order.
func sharedMemory(t *testing.T, d store.Driver) {
	sharing, ok := d.(store.Sharing)
	if !ok {
		t.Skipf("%s has none", d.Title())
	}
	top := t.TempDir()
	dirs := []string{filepath.Join(top, "a"), filepath.Join(top, "b"), filepath.Join(top, "c")}
	all, err := sharing.OpenShared(dirs, 32<<20, store.Config{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	check(t, err)
	want := fill(t, all[0])
	check(t, all[1].Put([]byte("k0000"), []byte("of b"), false))
	check(t, all[0].Flush())
	compare(t, all[0], want)
	check(t, all[0].Close())
	v, found, err := all[1].Get([]byte("k0000"), nil)
	check(t, err)
	if string(v) != "of b" || !found {
		t.Errorf("%q, %v", v, found)
	}
	compare(t, all[2], &Table{m: map[string]string{}})
	check(t, all[1].Close())
	check(t, all[2].Close())
	db, err := d.Open(dirs[0], store.Config{MustExist: true})
	check(t, err)
	compare(t, db, want)
	check(t, db.Close())
}
