package lsm

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// emptiedRow is key i of a table that is emptied.
func emptiedRow(i int) []byte { return fmt.Appendf(nil, "%08d", i) }

// tableBytes are the tables of a keyspace.
func tableBytes(k *store.Keyspace) uint64 {
	state := k.Tree.Acquire()
	defer state.Unref()
	return state.Version.Size()
}

// TestEmptiedKeyspaceLeaves: the tables of a keyspace whose rows were all deleted leave while
// another one is written.
func TestEmptiedKeyspaceLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative})
		defer db.Close()
		k, err := db.Keyspace("jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		fillAndDelete(t, k, 6000)
		for i := range 100 {
			mustPut(t, db, i)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if size := tableBytes(k.space); size != 0 {
			t.Errorf("tables of %d bytes in an empty keyspace", size)
		}
		for i := range 100 {
			wantValue(t, db, i)
		}
	})
}

// TestEmptiedBeforeOpen: rows that were deleted before the database was closed leave when it is
// opened, whether recovery makes a table of the deletions or keeps them in the memtable. In
// LevelDB's format a few large rows stay: the tables do not say that they are large.
func TestEmptiedBeforeOpen(t *testing.T) {
	for _, c := range []struct {
		format Format
		rows   int
	}{{FormatLevelDB, 20_000}, {FormatNative, 20_000}, {FormatNative, 300}} {
		t.Run(fmt.Sprint(c.format, " ", c.rows), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &Options{FS: vfs.NewMem(), Format: c.format, Compression: NoCompression}
				emptyAndClose(t, o, c.rows)
				db := mustOpen(t, "db", o)
				defer db.Close()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if size := tableBytes(db.space); size != 0 {
					t.Errorf("tables of %d bytes in an empty database", size)
				}
				before := db.Metrics()
				time.Sleep(time.Hour)
				synctest.Wait()
				if after := db.Metrics(); after.Flush != before.Flush ||
					after.Compact != before.Compact {
					t.Errorf("work in an hour: %+v, %+v", after.Flush, after.Compact)
				}
				wantCount(t, db, "emptied", 0)
			})
		})
	}
}

// emptyAndClose leaves a database whose rows, 8 MiB in all, are in tables and deleted.
func emptyAndClose(t *testing.T, o *Options, rows int) {
	t.Helper()
	db := mustOpen(t, "db", o)
	value := make([]byte, 8<<20/rows)
	for i := range rows {
		if err := db.Put(emptiedRow(i), value, NoSync); err != nil {
			t.Fatal(err)
		}
	}
	mustFlush(t, db)
	for i := range rows {
		if err := db.Delete(emptiedRow(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, db)
}

// fillAndDelete puts rows into tables of a keyspace and deletes them.
func fillAndDelete(t *testing.T, k *Keyspace, rows int) {
	t.Helper()
	for i := range rows {
		if err := k.Put(emptiedRow(i), make([]byte, 100), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := k.Delete(emptiedRow(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEmptiedAndGone: keyspaces are dropped, and databases closed, before, while and after
// memtables of deletions are flushed for lack of writes; opened again, the others are empty.
func TestEmptiedAndGone(t *testing.T) {
	const second = time.Second // of quiet
	for _, after := range []time.Duration{second / 2, second, second + 1, 2 * second, 3 * second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &Options{FS: vfs.NewMem(), Format: FormatNative}
				db := mustOpen(t, "db", o)
				names := []string{"kept", "dropped"}
				for _, name := range names {
					k, err := db.Keyspace(name, nil)
					if err != nil {
						t.Fatal(err)
					}
					fillAndDelete(t, k, 5000)
				}
				time.Sleep(after)
				if err := db.DropKeyspace("dropped"); err != nil {
					t.Error(err)
				}
				mustClose(t, db)
				db = mustOpen(t, "db", o)
				defer db.Close()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				k, err := db.Keyspace("kept", nil)
				if err != nil {
					t.Fatal(err)
				}
				if size := tableBytes(k.space); size != 0 {
					t.Errorf("tables of %d bytes in an empty keyspace", size)
				}
			})
		})
	}
}

// TestEmptiedSharingResources: emptied databases that share memory and workers leave their tables.
func TestEmptiedSharingResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResources(ResourcesOptions{Memory: 64 << 20, BackgroundJobs: 1})
		defer r.Close()
		var all []*DB
		for i := range 3 {
			db := mustOpen(t, fmt.Sprint("db", i), &Options{FS: vfs.NewMem(), Resources: r,
				Format: FormatNative})
			defer db.Close()
			k, err := db.Keyspace("jobs", nil)
			if err != nil {
				t.Fatal(err)
			}
			fillAndDelete(t, k, 6000)
			all = append(all, db)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i, db := range all {
			k, err := db.Keyspace("jobs", nil)
			if err != nil {
				t.Fatal(err)
			}
			if size := tableBytes(k.space); size != 0 {
				t.Errorf("database %d: tables of %d bytes in an empty keyspace", i, size)
			}
		}
	})
}
