package lsm

import (
	"context"
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// writeOne makes a table outside of a database with one entry.
func writeOne(t *testing.T, path, key, value string, o *Options) {
	t.Helper()
	w, err := NewTableWriter(path, o)
	must(t, err)
	must(t, w.Put([]byte(key), []byte(value)))
	must(t, w.Finish())
}

// TestSwappedTables: a table under the name of another one is damage to every read, and what it
// has is in its own place after a repair.
func TestSwappedTables(t *testing.T) {
	put := func(t *testing.T, db *DB, key, value string, _ *Options) {
		must(t, db.Put([]byte(key), []byte(value), NoSync))
		must(t, db.Flush())
	}
	ingest := func(t *testing.T, db *DB, key, value string, o *Options) {
		writeOne(t, value, key, value, o)
		must(t, db.Ingest(context.Background(), nil, value))
	}
	for _, c := range []struct {
		name       string
		format     Format
		put        func(t *testing.T, db *DB, key, value string, o *Options)
		key1, key2 string
	}{
		{"native, one key", FormatNative, put, "k", "k"},
		{"native, two keys", FormatNative, put, "j", "k"},
		{"native, ingested, one key", FormatNative, ingest, "k", "k"},
		{"native, ingested, two keys", FormatNative, ingest, "j", "k"},
		{"leveldb, one key", FormatLevelDB, put, "k", "k"},
		{"leveldb, two keys", FormatLevelDB, put, "j", "k"},
		{"leveldb, ingested", FormatLevelDB, ingest, "j", "k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := &Options{FS: mem, Format: c.format, DisableCompaction: true}
			db := mustOpen(t, "db", o)
			c.put(t, db, c.key1, "old", o)
			c.put(t, db, c.key2, "new", o)
			must(t, db.Close())
			swapTables(t, mem)
			db = mustOpen(t, "db", o)
			for _, key := range []string{c.key1, c.key2} {
				if got, err := db.Get([]byte(key), nil); !errors.Is(err, ErrCorruption) {
					t.Errorf("Get(%s): %q, %v", key, got, err)
				}
			}
			must(t, db.Close())
			report, err := Repair("db", o)
			if err != nil || len(report.Rewritten) != 2 || len(report.Dropped) != 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			db = mustOpen(t, "db", o)
			defer db.Close()
			want := map[string]string{c.key1: "old"}
			want[c.key2] = "new"
			for key, value := range want {
				if got, err := db.Get([]byte(key), nil); string(got) != value {
					t.Errorf("%s is %q, %v", key, got, err)
				}
			}
		})
	}
}

// swapTables swaps the names of the two tables of db.
func swapTables(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	tables, err := fstest.Find(mem, "db", base.FileTable)
	must(t, err)
	if len(tables) != 2 {
		t.Fatalf("tables %v", tables)
	}
	must(t, mem.Rename(tables[0], "db/swap"))
	must(t, mem.Rename(tables[1], tables[0]))
	must(t, mem.Rename("db/swap", tables[1]))
}

// TestStrangeTable: a table from outside under the name of the database's is damage, and a repair
// does not take its entries.
func TestStrangeTable(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		mem := vfs.NewMem()
		o := &Options{FS: mem, Format: format}
		db := mustOpen(t, "db", o)
		must(t, db.Put([]byte("own"), []byte("1"), NoSync))
		must(t, db.Flush())
		must(t, db.Close())
		writeOne(t, "strange", "own", "2", o)
		tables, err := fstest.Find(mem, "db", base.FileTable)
		must(t, err)
		must(t, mem.Remove(tables[0]))
		must(t, mem.Rename("strange", tables[0]))
		db = mustOpen(t, "db", o)
		if got, err := db.Get([]byte("own"), nil); !errors.Is(err, ErrCorruption) {
			t.Errorf("%v: Get: %q, %v", format, got, err)
		}
		must(t, db.Close())
		report, err := Repair("db", o)
		must(t, err)
		if len(report.Dropped) == 0 {
			t.Errorf("%v: nothing is reported", format)
		}
		db = mustOpen(t, "db", o)
		if got, err := db.Get([]byte("own"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: after the repair: %q, %v", format, got, err)
		}
		must(t, db.Close())
	}
}

// TestSwappedIngestedOfKeyspaces: tables of a TableWriter do not record a keyspace, and return to
// their own all the same.
func TestSwappedIngestedOfKeyspaces(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	o := &Options{FS: mem}
	db := mustOpen(t, "db", o)
	other := mustSpace(t, db, "other")
	writeOne(t, "1", "k", "1", o)
	writeOne(t, "2", "k", "2", o)
	must(t, db.Ingest(context.Background(), nil, "1"))
	must(t, other.Ingest(context.Background(), nil, "2"))
	must(t, db.Close())
	swapTables(t, mem)
	report, err := Repair("db", o)
	if err != nil || len(report.Rewritten) != 2 || len(report.Dropped) != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	db = mustOpen(t, "db", o)
	defer db.Close()
	for value, s := range map[string]Store{"1": db, "2": mustSpace(t, db, "other")} {
		if got, err := s.Get([]byte("k"), nil); string(got) != value {
			t.Errorf("k is %q, %v, not %q", got, err, value)
		}
	}
}
