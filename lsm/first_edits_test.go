package lsm

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestDamagedFirstEdits: the first edits of a MANIFEST are durable before CURRENT names it, so that
// damage to the last of them, and a cut within them, is not a torn end: the state before it lacks a
// keyspace. A repair reports the damage and keeps the entries.
func TestDamagedFirstEdits(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	o := &Options{FS: mem}
	db := mustOpen(t, "db", o)
	for _, name := range []string{"tabled", "logged"} {
		k, err := db.Keyspace(name, nil)
		must(t, err)
		must(t, k.Put([]byte("k"), []byte(name), Sync))
		if name == "tabled" {
			must(t, k.Flush())
		}
	}
	mustClose(t, db)
	db = mustOpen(t, "db", o)
	killed := mem.CrashClone(vfs.KeepAll())
	mustClose(t, db)
	paths, err := fstest.Find(killed, "db", base.FileManifest)
	must(t, err)
	path := paths[len(paths)-1] // the obsolete one may still be there
	b, err := fstest.ReadFile(killed, path)
	must(t, err)
	values := func(db *DB) (all string) {
		for _, name := range db.Keyspaces() {
			k, err := db.Keyspace(name, &KeyspaceOptions{ErrorIfMissing: true})
			must(t, err)
			v, err := k.Get([]byte("k"), nil)
			if !errors.Is(err, ErrNotFound) {
				must(t, err)
			}
			all += string(v)
		}
		return all
	}
	for at := range b {
		for _, cut := range []bool{false, true} {
			damaged := killed.CrashClone(vfs.KeepAll())
			if cut {
				must(t, damaged.Remove(path))
				must(t, fstest.WriteFile(damaged, path, b[:at]))
			} else {
				must(t, fstest.Flip(damaged, path, at))
			}
			o := &Options{FS: damaged}
			if readersAgree(t, "damaged", damaged) != "refused" {
				t.Errorf("byte %d of %d, cut: %v: opened", at, len(b), cut)
			}
			report, err := Repair("db", o)
			if errors.Is(err, ErrNotADatabase) || errors.Is(err, ErrNewerFormat) {
				continue
			}
			must(t, err)
			if len(report.Dropped) == 0 {
				t.Errorf("byte %d of %d, cut: %v: nothing reported", at, len(b), cut)
			}
			db := mustOpen(t, "db", o)
			if got := values(db); got != "tabledlogged" { // a keyspace may have lost its name
				t.Errorf("byte %d of %d, cut: %v: the repair kept %q", at, len(b), cut, got)
			}
			mustClose(t, db)
		}
	}
}
