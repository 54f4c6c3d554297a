package lsm

import (
	"context"
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestRepairKeepsIngestedApart: an ingested table that is all that a keyspace has does not become
// the default one's, whichever bytes of the MANIFEST are zeroed, as long as one of its edits
// names the keyspace.
func TestRepairKeepsIngestedApart(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	o := &Options{FS: mem}
	db := mustOpen(t, "db", o)
	_, err := db.Keyspace("other", nil)
	must(t, err)
	must(t, db.Close())
	db = mustOpen(t, "db", o) // a MANIFEST that begins with the keyspace
	k, err := db.Keyspace("other", nil)
	must(t, err)
	writeOne(t, "table", "k", "v", o)
	must(t, k.Ingest(context.Background(), nil, "table"))
	killed := mem.CrashClone(vfs.KeepAll())
	must(t, db.Close())
	found, err := fstest.Find(killed, "db", base.FileManifest)
	must(t, err)
	whole, err := fstest.ReadFile(killed, found[0])
	must(t, err)
	const zeros = 24
	for at := range whole {
		fsys := killed.CrashClone(vfs.KeepAll())
		b := append([]byte{}, whole...)
		clear(b[at:min(at+zeros, len(b))])
		must(t, fsys.Remove(found[0]))
		must(t, fstest.WriteFile(fsys, found[0], b))
		report, err := Repair("db", &Options{FS: fsys})
		must(t, err)
		kept := false
		db := mustOpen(t, "db", &Options{FS: fsys})
		if v, err := db.Get([]byte("k"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("%d zeros at %d of %d: k is %q in the default keyspace, %v", zeros, at,
				len(b), v, err)
		}
		for _, name := range db.Keyspaces() {
			k, err := db.Keyspace(name, nil)
			must(t, err)
			if v, err := k.Get([]byte("k"), nil); err == nil && string(v) == "v" {
				kept = true
			}
		}
		if !kept && len(report.Dropped) == 0 {
			t.Errorf("%d zeros at %d of %d: the entry is nowhere, and nothing is reported", zeros,
				at, len(b))
		}
		must(t, db.Close())
	}
}
