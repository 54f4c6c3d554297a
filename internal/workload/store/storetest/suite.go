package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
)

// Run checks that a driver does what the benchmark takes for granted.
func Run(t *testing.T, d store.Driver) {
	if d.Name() == "" || d.Title() == "" || d.Version() == "" || d.Durability() == "" {
		t.Errorf("driver without a name: %q %q %q %q", d.Name(), d.Title(), d.Version(),
			d.Durability())
	}
	dir := filepath.Join(t.TempDir(), "db")
	if _, err := d.Open(dir, store.Config{MustExist: true}); err == nil {
		t.Error("opened a database that is not there")
	}
	db, err := d.Open(dir, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := fill(t, db)
	compare(t, db, want)
	for what, f := range map[string]func() error{"flush": db.Flush, "compact": db.Compact} {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		compare(t, db, want)
	}
	snapshots(t, db, want)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = d.Open(dir, store.Config{MustExist: true}); err != nil {
		t.Fatal(err)
	}
	compare(t, db, want)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(dir, store.Config{MustExist: true}); err == nil {
		t.Error("opened a database that was destroyed")
	}
	if err := d.Destroy(dir); err != nil {
		t.Errorf("destroy nothing: %v", err)
	}
	codecs(t, d)
	t.Run("pinned values", func(t *testing.T) { pins(t, d) })
	t.Run("range deletes", func(t *testing.T) { rangeDeletes(t, d) })
	t.Run("backups", func(t *testing.T) { backups(t, d) })
	t.Run("dumps", func(t *testing.T) { dumps(t, d) })
	t.Run("ingests", func(t *testing.T) { ingests(t, d) })
	t.Run("bulk loads", func(t *testing.T) { bulkLoads(t, d) })
	t.Run("followers", func(t *testing.T) { followers(t, d) })
	t.Run("shared memory", func(t *testing.T) { sharedMemory(t, d) })
	t.Run("changes", func(t *testing.T) { changes(t, d) })
	t.Run("checkpoints", func(t *testing.T) { checkpoints(t, d) })
	t.Run("counters", func(t *testing.T) { counters(t, d) })
	t.Run("keyspaces", func(t *testing.T) { keyspaces(t, d) })
	for name, needs := range map[string]store.Needs{
		"transactions": {Transactions: true}, "locks": {Transactions: true, Locks: true},
	} {
		t.Run(name, func(t *testing.T) { transactions(t, d, needs) })
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill writes in all ways and returns what must be there.
func fill(t *testing.T, db store.Store) *Table {
	rnd := rand.New(rand.NewPCG(1, 2))
	want := &Table{m: map[string]string{}}
	batch := db.NewBatch()
	for i := range 4000 {
		k := fmt.Appendf(nil, "k%04d", rnd.IntN(2000))
		v := bytes.Repeat([]byte{byte('a' + i%26)}, rnd.IntN(200))
		if i%100 == 0 {
			check(t, db.Write(batch, false))
			batch.Clear()
		}
		switch rnd.IntN(5) {
		case 0:
			check(t, db.Write(batch, true)) // what waits in it comes first
			batch.Clear()
			check(t, db.Delete(k, false))
			want.delete(string(k))
		case 1:
			check(t, db.Write(batch, false))
			batch.Clear()
			check(t, db.Put(k, v, i%50 == 0))
			want.put(string(k), string(v))
		case 2:
			batch.Delete(k)
			want.delete(string(k))
		default:
			batch.Put(k, v)
			want.put(string(k), string(v))
		}
		// The driver must have copied what it was given.
		clear(k)
		clear(v)
	}
	check(t, db.Write(batch, false))
	return want
}

func compare(t *testing.T, db store.Reader, want *Table) {
	t.Helper()
	dst := []byte("before")
	var keys [][]byte
	for i := range 2000 {
		k := fmt.Appendf(nil, "k%04d", i)
		keys = append(keys, k)
		v, found, err := db.Get(k, dst)
		check(t, err)
		w, ok := want.m[string(k)]
		if found != ok || string(v) != "before"+w {
			t.Fatalf("get %s = %q %v, want %q %v after %q", k, v, found, w, ok, dst)
		}
		has, err := db.Has(k)
		check(t, err)
		if has != ok {
			t.Fatalf("has %s = %v", k, has)
		}
	}
	values := db.NewValues()
	for len(keys) > 0 {
		n := min(len(keys), 37)
		check(t, db.MultiGet(keys[:n], values))
		for i, k := range keys[:n] {
			v, found := values.Value(i)
			if w, ok := want.m[string(k)]; found != ok || string(v) != w {
				t.Fatalf("multiget %s = %q %v, want %q %v", k, v, found, w, ok)
			}
		}
		keys = keys[n:]
	}
	walk(t, db, want)
}

// walk moves an iterator of the store and one of the model alike.
func walk(t *testing.T, db store.Reader, want *Table) {
	t.Helper()
	it, err := db.NewIterator()
	check(t, err)
	model, _ := modelReader{NewModel(), want}.NewIterator()
	same := func(what string, got, want bool) {
		t.Helper()
		if got != want || it.Valid() != want {
			t.Fatalf("%s = %v, Valid %v, want %v (%v)", what, got, it.Valid(), want, it.Err())
		}
		if want && (!bytes.Equal(it.Key(), model.Key()) ||
			!bytes.Equal(it.Value(), model.Value())) {
			t.Fatalf("%s at %q, want %q", what, it.Key(), model.Key())
		}
	}
	same("First", it.First(), model.First())
	for it.Valid() {
		same("Next", it.Next(), model.Next())
	}
	same("Last", it.Last(), model.Last())
	for it.Valid() {
		same("Prev", it.Prev(), model.Prev())
	}
	for i := range 200 {
		k := fmt.Appendf(nil, "k%04d", i*11)
		same("SeekGE", it.SeekGE(k), model.SeekGE(k))
		same("SeekLT", it.SeekLT(k), model.SeekLT(k))
	}
	check(t, it.Err())
	check(t, it.Close())
}

func snapshots(t *testing.T, db store.Store, want *Table) {
	s, err := db.Snapshot()
	check(t, err)
	const key = "k0000 new"
	check(t, db.Put([]byte(key), []byte("v"), false))
	if has, err := s.Has([]byte(key)); has || err != nil {
		t.Errorf("a snapshot sees what came later (%v)", err)
	}
	compare(t, s, want)
	check(t, s.Close())
	check(t, db.Delete([]byte(key), false))
}

func codecs(t *testing.T, d store.Driver) {
	block := bytes.Repeat([]byte("half of it is as good"), 200)
	for _, name := range []string{"snappy", "zstd", "crc32c"} {
		c, ok := d.Codec(name)
		if !ok {
			continue
		}
		packed := bytes.Clone(c.Encode(nil, block))
		if again := c.Encode(make([]byte, 0, len(block)), block); !bytes.Equal(packed, again) {
			t.Errorf("%s: depends on the buffer", name)
		}
		if c.Close != nil {
			defer c.Close()
		}
		if c.Decode == nil {
			continue
		}
		if out, err := c.Decode(nil, packed); err != nil || !bytes.Equal(out, block) {
			t.Errorf("%s: decoded %d bytes, %v", name, len(out), err)
		}
	}
}

// FlushKeepsTables checks that a flush writes the memtable and leaves the tables of before alone,
// and that a compaction does not, with a driver of an LSM tree.
func FlushKeepsTables(t *testing.T, d store.Driver) {
	db, err := d.Open(t.TempDir(), store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 3 {
		if err := errors.Join(db.Put([]byte("a"), []byte{byte(i)}, false), db.Put([]byte("z"),
			[]byte{byte(i)}, false), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Metrics().Tables; n != 3 {
		t.Errorf("%d tables of 3 flushes", n)
	}
	if err := db.Compact(); err != nil {
		t.Fatal(err)
	}
	if n := db.Metrics().Tables; n != 1 {
		t.Errorf("%d tables after a compaction", n)
	}
}
