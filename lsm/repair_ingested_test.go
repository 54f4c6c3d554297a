package lsm

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestRepairKeepsIngestedKeyspacesApart: without a MANIFEST, tables that were loaded or ingested
// into a keyspace do not become the default one's, and other comparers do not stop the repair.
func TestRepairKeepsIngestedKeyspacesApart(t *testing.T) {
	needsNative(t)
	m := vfs.NewMem()
	o := &Options{FS: m}
	db, err := Open("db", o)
	must(t, err)
	must(t, db.Put([]byte("own"), nil, NoSync))
	must(t, db.Flush())
	ctx := context.Background()
	for name, cmp := range map[string]*Comparer{"same": BytewiseComparer,
		"other": ReverseBytewiseComparer} {
		ks, err := db.Keyspace(name, &KeyspaceOptions{Comparer: cmp})
		must(t, err)
		must(t, ks.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			yield([]byte("loaded "+name), nil)
		}, nil))
		w, err := NewTableWriter(name, &Options{FS: m, Comparer: cmp})
		must(t, err)
		must(t, w.Put([]byte("written "+name), nil))
		must(t, w.Finish())
		must(t, ks.Ingest(ctx, nil, name))
	}
	must(t, db.Close())
	removeManifests(t, m)
	_, err = Repair("db", o)
	must(t, err)
	db, err = Open("db", o)
	must(t, err)
	defer db.Close()
	keys := func(s Store) (list []string) {
		it := s.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			list = append(list, string(it.Key()))
		}
		must(t, it.Close())
		return list
	}
	if got := keys(db); !slices.Equal(got, []string{"own"}) {
		t.Errorf("the default keyspace has %q", got)
	}
	var ingested []string
	for _, name := range db.Keyspaces()[1:] {
		ks, err := db.Keyspace(name, nil)
		must(t, err)
		if got := keys(ks); strings.HasPrefix(name, "ingested-") {
			ingested = append(ingested, got...)
		} else if !slices.Equal(got, []string{"loaded " + name}) {
			t.Errorf("keyspace %s has %q", name, got)
		}
	}
	slices.Sort(ingested)
	if !slices.Equal(ingested, []string{"written other", "written same"}) {
		t.Errorf("ingested tables have %q", ingested)
	}
}

// TestRepairOrdersIngested: without a MANIFEST an ingested value wins over an older one that the
// ingest flushed, also where the numbers of files get another digit between the two.
func TestRepairOrdersIngested(t *testing.T) {
	needsNative(t)
	for name, numbers := range map[string]uint64{"flushed": 0, "another digit": 999_996} {
		t.Run(name, func(t *testing.T) {
			m := vfs.NewMem()
			o := &Options{FS: m}
			db, err := Open("db", o)
			must(t, err)
			for db.engine.Parts().Manifest.NewFileNum() < numbers {
			}
			for range 5 {
				must(t, db.Put([]byte("k"), []byte("old"), NoSync))
			}
			if numbers > 0 {
				must(t, db.Flush())
			}
			w, err := NewTableWriter("new", o)
			must(t, err)
			must(t, w.Put([]byte("k"), []byte("new")))
			must(t, w.Finish())
			must(t, db.Ingest(context.Background(), nil, "new"))
			must(t, db.Close())
			removeManifests(t, m)
			_, err = Repair("db", o)
			must(t, err)
			db, err = Open("db", o)
			must(t, err)
			defer db.Close()
			got, err := db.Get([]byte("k"), nil)
			must(t, err)
			if string(got) != "new" {
				t.Errorf("the repaired database has %q", got)
			}
		})
	}
}

// TestRepairOrdersIngestedTogether: tables that are ingested together share a sequence number;
// without a MANIFEST, what is written after them stays newer than each of them.
func TestRepairOrdersIngestedTogether(t *testing.T) {
	for _, flush := range []bool{false, true} {
		m := vfs.NewMem()
		o := &Options{FS: m, DisableCompaction: true}
		db := mustOpen(t, "db", o)
		must(t, db.Put([]byte("0"), nil, NoSync))
		must(t, db.Flush())
		keys := []string{"a", "b", "c", "d"}
		var paths []string
		for _, key := range keys {
			w, err := NewTableWriter("new-"+key, o)
			must(t, err)
			must(t, w.Put([]byte(key), []byte("ingested")))
			must(t, w.Finish())
			paths = append(paths, "new-"+key)
		}
		must(t, db.Ingest(context.Background(), nil, paths...))
		for _, key := range slices.Backward(keys) {
			must(t, db.Put([]byte(key), []byte("newest"), NoSync))
		}
		if flush {
			must(t, db.Flush())
		}
		must(t, db.Close())
		removeManifests(t, m)
		report, err := Repair("db", o)
		must(t, err)
		for _, d := range report.Dropped {
			if strings.Contains(d.Reason, "second value") {
				t.Error(d)
			}
		}
		db = mustOpen(t, "db", o)
		for _, key := range keys {
			if got, err := db.Get([]byte(key), nil); string(got) != "newest" {
				t.Errorf("flush %v: %s is %q, %v", flush, key, got, err)
			}
		}
		must(t, db.Close())
	}
}

// removeManifests removes the MANIFESTs of db.
func removeManifests(t *testing.T, m *vfs.Mem) {
	t.Helper()
	names, err := m.List("db")
	must(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, ".manifest") {
			must(t, m.Remove(filepath.Join("db", n)))
		}
	}
}

// TestRepairKnowsIngested: tables that were written after an ingest tell a repair without a
// MANIFEST the sequence number and the keyspace of the ingested table, also where a compaction
// wrote older entries of its keys anew.
func TestRepairKnowsIngested(t *testing.T) {
	needsNative(t)
	m := vfs.NewMem()
	o := &Options{FS: m, DisableCompaction: true}
	db, err := Open("db", o)
	must(t, err)
	k, err := db.Keyspace("s", nil)
	must(t, err)
	snap := db.Snapshot() // the compaction keeps the sequence numbers above
	for _, v := range []string{"1", "2"} {
		must(t, k.Put([]byte("a"), []byte(v), NoSync))
		must(t, k.Put([]byte("z"), []byte(v), NoSync))
		must(t, k.Flush())
	}
	ctx := context.Background()
	ingest := func(k *Keyspace, name, key string) {
		w, err := NewTableWriter(name, o)
		must(t, err)
		must(t, w.Put([]byte(key), []byte(name)))
		must(t, w.Finish())
		must(t, k.Ingest(ctx, nil, name))
	}
	ingest(k, "first", "a")
	own, err := db.Keyspace("default", nil)
	must(t, err)
	ingest(own, "second", "a")
	must(t, k.Put([]byte("b"), nil, NoSync))
	must(t, k.CompactRange([]byte("y"), nil)) // the tables below those of the ingests
	must(t, k.Flush())
	ingest(k, "third", "b")
	must(t, db.Put([]byte("c"), nil, NoSync)) // another keyspace tells of that
	must(t, db.Flush())
	snap.Close()
	must(t, db.Close())
	for range 2 {
		removeManifests(t, m)
		report, err := Repair("db", o)
		must(t, err)
		db, err = Open("db", o)
		must(t, err)
		if got := db.Keyspaces(); !slices.Equal(got, []string{"default", "s"}) {
			t.Errorf("keyspaces %q, %+v", got, report)
		}
		holds(t, db, map[string]string{"a": "second", "c": ""})
		k, err = db.Keyspace("s", nil)
		must(t, err)
		for key, want := range map[string]string{"a": "first", "b": "third", "z": "2"} {
			if v, err := k.Get([]byte(key), nil); err != nil || string(v) != want {
				t.Errorf("%s is %q, %v, want %q", key, v, err, want)
			}
		}
		must(t, db.Close())
	}
}
