package lsm

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestDamagedEditOfAnIngest: an ingest is in no log, and no file is missing without it, so that its
// edit, when damaged, must not be taken for one that a crash has torn.
func TestDamagedEditOfAnIngest(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		mem := vfs.NewMem()
		o := &Options{FS: mem, Format: format}
		db := mustOpen(t, "db", o)
		mustPut(t, db, 1)
		must(t, db.Ingest(context.Background(), nil, writeTable(t, "new", o, "new", "")))
		killed := mem.CrashClone(vfs.KeepAll())
		must(t, db.Close())
		paths, err := fstest.Find(killed, "db", base.FileManifest)
		must(t, err)
		b, err := fstest.ReadFile(killed, paths[0])
		must(t, err)
		refused := 0
		for at := range b {
			if b[at] == 0 {
				continue
			}
			damaged := killed.CrashClone(vfs.KeepAll())
			must(t, fstest.Flip(damaged, paths[0], at))
			db, err := Open("db", &Options{FS: damaged})
			if err != nil {
				if !errors.Is(err, ErrCorruption) && !errors.Is(err, ErrNotADatabase) {
					t.Errorf("%v, byte %d: %v", format, at, err)
				}
				refused++
				continue
			}
			if ok, err := db.Has([]byte("new")); !ok || err != nil {
				t.Errorf("%v, byte %d: the ingested key is there: %v, %v", format, at, ok, err)
			}
			must(t, db.Close())
		}
		if refused == 0 {
			t.Errorf("%v: nothing was refused", format)
		}
	}
}

// TestCutEditOfAnIngest: a MANIFEST that is cut within or before the edit of an ingest lacks its
// tables, and no file is missing; the log tells that the edit was there.
func TestCutEditOfAnIngest(t *testing.T) {
	needsNative(t)
	for name, ingest := range map[string]func(*testing.T, *DB, *Options) error{
		"ingest": func(t *testing.T, db *DB, o *Options) error {
			return db.Ingest(context.Background(), nil, writeTable(t, "new", o, "new", ""))
		},
		"excise": func(_ *testing.T, db *DB, _ *Options) error {
			return db.Ingest(context.Background(),
				&IngestOptions{Excise: &Range{Start: key(0), Limit: key(1)}})
		},
		"load": func(_ *testing.T, db *DB, _ *Options) error {
			return db.BulkLoad(context.Background(), func(yield func(k, v []byte) bool) {
				yield([]byte("new"), nil)
			}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := &Options{FS: mem}
			db := mustOpen(t, "db", o)
			mustPut(t, db, 0)
			must(t, db.Flush())
			mustClose(t, db)
			db = mustOpen(t, "db", o)
			paths, err := fstest.Find(mem, "db", base.FileManifest)
			must(t, err)
			path := paths[len(paths)-1] // an older one may not be deleted yet
			before, err := fstest.ReadFile(mem, path)
			must(t, err)
			must(t, ingest(t, db, o))
			ingested := mem.CrashClone(vfs.KeepAll())
			mustPut(t, db, 2)
			written := mem.CrashClone(vfs.KeepAll())
			mustClose(t, db)
			for i, killed := range []*vfs.Mem{ingested, written} {
				wantCutRefused(t, killed, path, len(before), i == 1)
			}
		})
	}
}

// wantCutRefused cuts the MANIFEST everywhere within the edit of an ingest, which begins at an
// offset.
func wantCutRefused(t *testing.T, killed *vfs.Mem, path string, from int, more bool) {
	t.Helper()
	b, err := fstest.ReadFile(killed, path)
	must(t, err)
	refused := 0
	for at := from; at < len(b); at++ {
		cut := killed.CrashClone(vfs.KeepAll())
		must(t, errors.Join(cut.Remove(path), fstest.WriteFile(cut, path, b[:at])))
		o := &Options{FS: cut}
		db, err := Open("db", o)
		if err == nil {
			mustClose(t, db) // behind the edit there is an empty one
			continue
		}
		refused++
		_, ferr := OpenFollower("db", o)
		_, rerr := Open("db", &Options{FS: cut, ReadOnly: true})
		for _, err := range []error{err, ferr, rerr} {
			if !errors.Is(err, ErrCorruption) {
				t.Fatalf("cut at %d of %d: %v", at, len(b), err)
			}
		}
		if at != from {
			continue
		}
		report, err := Repair("db", o)
		if must(t, err); len(report.Dropped) == 0 {
			t.Errorf("cut at %d: %+v", at, report)
		}
		db = mustOpen(t, "db", o)
		if ok, err := db.Has(key(2)); ok != more || err != nil {
			t.Errorf("cut at %d: the write behind the ingest: %v, %v", at, ok, err)
		}
		isTable := func(name string) bool { return fstest.TypeOf(name) == base.FileTable }
		if !slices.ContainsFunc(report.SetAside, isTable) {
			t.Errorf("cut at %d: the table is not set aside: %+v", at, report)
		}
		mustClose(t, db)
	}
	if refused < 20 {
		t.Errorf("%d of %d cuts were refused", refused, len(b)-from)
	}
}
