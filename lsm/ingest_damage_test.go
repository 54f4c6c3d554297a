package lsm

import (
	"context"
	"errors"
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
