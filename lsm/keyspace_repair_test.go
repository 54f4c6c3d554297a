package lsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// spacesKeys is how many keys killedSpaces writes into each keyspace, in turn.
const spacesKeys = 50

// killedSpaces is the file system of a database that was killed. The keyspaces default,
// down and gone got the same 300 batches; down is flushed more often, in the order of
// its own comparer, and gone was dropped.
func killedSpaces(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db := openSpaces(t, mem, func(o *Options) { o.DisableCompaction = true })
	down, err := db.Keyspace("down", &KeyspaceOptions{Comparer: ReverseBytewiseComparer})
	if err != nil {
		t.Fatal(err)
	}
	gone := mustSpace(t, db, "gone")
	for i := range 300 {
		putIn(t, db, fmt.Sprintf("%02d", i%spacesKeys), fmt.Sprint(i), nil, down, gone)
		if i%70 == 69 {
			if err := down.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 130 {
			mustFlush(t, db)
		}
	}
	if err := db.DropKeyspace("gone"); err != nil {
		t.Fatal(err)
	}
	killed := mem.CrashClone(vfs.KeepAll())
	mustClose(t, db)
	return killed
}

const noManifest = "CURRENT and MANIFEST"

func removeCurrent(mem *vfs.Mem) error { return mem.Remove("db/CURRENT/manifest") }

// TestRepairKeyspaces: a repair gives every entry back to its keyspace.
func TestRepairKeyspaces(t *testing.T) {
	newest := func(fsys vfs.FS, kind base.FileType) string {
		paths, err := fstest.Find(fsys, "db", kind)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%v, %v", paths, err)
		}
		return paths[len(paths)-1]
	}
	for _, c := range []struct {
		name  string
		whole bool // nothing is lost
		do    func(mem *vfs.Mem) error
	}{
		{"CURRENT", true, removeCurrent},
		{noManifest, true, func(mem *vfs.Mem) error {
			return errors.Join(removeCurrent(mem), mem.Remove(newest(mem, base.FileManifest)))
		}},
		{"a table", false, func(mem *vfs.Mem) error {
			return fstest.Flip(mem, newest(mem, base.FileTable), 30)
		}},
		{"the log", false, func(mem *vfs.Mem) error {
			return fstest.Flip(mem, newest(mem, base.FileLog), 30)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := killedSpaces(t)
			if err := c.do(mem); err != nil {
				t.Fatal(err)
			}
			o := &Options{FS: mem, Format: FormatNative, WriteBufferSize: 64 << 10}
			report, err := Repair("db", o)
			if err != nil || !report.Changed() || report.LevelsLost != (c.name == noManifest) {
				t.Fatalf("%+v, %v", report, err)
			}
			if again, err := Repair("db", o); err != nil || again.Changed() {
				t.Fatalf("a second repair: %+v, %v", again, err)
			}
			if c.name == noManifest { // what a repair wrote can be repaired, too
				if err := c.do(mem); err != nil {
					t.Fatal(err)
				}
				if again, err := Repair("db", o); err != nil || !again.Changed() {
					t.Fatalf("%+v, %v", again, err)
				}
			}
			db := openSpaces(t, mem, nil)
			names := db.engine.Keyspaces().Names()
			// entries of the one that was dropped are in the logs, its name is nowhere
			if c.name == noManifest {
				names = slices.DeleteFunc(names, func(s string) bool {
					return strings.HasPrefix(s, "keyspace-")
				})
			}
			if !slices.Equal(names, []string{base.DefaultKeyspaceName, "down"}) {
				t.Fatalf("keyspaces %v", names)
			}
			down := mustSpace(t, db, "down")
			if got := down.space.Tree.Comparer(); got.Name != base.ReverseBytewise.Name {
				t.Errorf("down has comparer %s", got.Name)
			}
			for _, get := range []func(key []byte) ([]byte, error){
				func(key []byte) ([]byte, error) { return db.Get(key, nil) },
				func(key []byte) ([]byte, error) { return down.Get(key, nil) },
			} {
				for i := range spacesKeys {
					v, err := get(fmt.Appendf(nil, "%02d", i))
					n := -1
					_, _ = fmt.Sscan(string(v), &n)
					lost := !c.whole && errors.Is(err, ErrNotFound)
					if !lost && (n%spacesKeys != i || c.whole && n != 250+i) {
						t.Fatalf("key %d is %q, %v", i, v, err)
					}
				}
			}
			mustClose(t, db)
		})
	}
}

// TestRepairKeepsDropped: entries of a dropped keyspace, which are in logs, stay out where the
// latest edits of the MANIFEST are, or may be, missing: its number tells.
func TestRepairKeepsDropped(t *testing.T) {
	next := func(t *testing.T, mem *vfs.Mem, kind base.FileType) string {
		names, err := mem.List("db")
		must(t, err)
		last := uint64(0)
		for _, name := range names {
			_, num := base.Native.ParseFileName(name)
			last = max(last, num)
		}
		return "db/" + base.Native.FileName(kind, last+1)
	}
	for name, damage := range map[string]func(t *testing.T, mem *vfs.Mem){
		"a table is missing, and one of a repair that failed is there": func(t *testing.T,
			mem *vfs.Mem) {
			paths, err := fstest.Find(mem, "db", base.FileTable)
			must(t, err)
			must(t, mem.Rename(paths[len(paths)-1], next(t, mem, base.FileTable)))
		},
		"CURRENT is missing, and a MANIFEST was begun": func(t *testing.T, mem *vfs.Mem) {
			must(t, removeCurrent(mem))
			must(t, fstest.WriteFile(mem, next(t, mem, base.FileManifest), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := killedSpaces(t)
			damage(t, mem)
			o := &Options{FS: mem, Format: FormatNative, WriteBufferSize: 64 << 10}
			if report, err := Repair("db", o); err != nil || !report.Changed() {
				t.Fatalf("%+v, %v", report, err)
			}
			db := openSpaces(t, mem, nil)
			if names := db.Keyspaces(); !slices.Equal(names, []string{base.DefaultKeyspaceName,
				"down"}) {
				t.Errorf("keyspaces %v", names)
			}
			mustClose(t, db)
		})
	}
}

// TestRepairOfSwappedTables: tables of two keyspaces that swapped their names go back into their
// own.
func TestRepairOfSwappedTables(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	o := &Options{FS: mem}
	db := mustOpen(t, "db", o)
	other := mustSpace(t, db, "other")
	must(t, db.Put([]byte("own"), nil, NoSync))
	must(t, other.Put([]byte("others"), nil, NoSync))
	must(t, db.Flush())
	must(t, other.Flush())
	must(t, db.Close())
	tables, err := fstest.Find(mem, "db", base.FileTable)
	must(t, err)
	must(t, mem.Rename(tables[0], "db/swap"))
	must(t, mem.Rename(tables[1], tables[0]))
	must(t, mem.Rename("db/swap", tables[1]))
	report, err := Repair("db", o)
	must(t, err)
	if len(report.Rewritten) != 2 {
		t.Errorf("the repair reports %+v", report)
	}
	db = mustOpen(t, "db", o)
	defer db.Close()
	for key, s := range map[string]Store{"own": mustSpace(t, db, "other"), "others": db} {
		if ok, err := s.Has([]byte(key)); ok || err != nil {
			t.Errorf("%s is in the other keyspace: %v, %v", key, ok, err)
		}
	}
	for key, s := range map[string]Store{"others": mustSpace(t, db, "other"), "own": db} {
		if ok, err := s.Has([]byte(key)); !ok || err != nil {
			t.Errorf("%s is not in its keyspace: %v, %v", key, ok, err)
		}
	}
}

// TestRepairOfTwins damages the edits that dropped a keyspace and gave its name to another one, of
// which a table is there: the newer keyspace keeps the name, and nothing of the older one returns.
func TestRepairOfTwins(t *testing.T) {
	needsNative(t)
	for _, flushed := range []bool{false, true} {
		mem := vfs.NewMem()
		db := mustOpen(t, "db", &Options{FS: mem})
		must(t, db.Put([]byte("own"), nil, Sync)) // keeps the log
		old := mustSpace(t, db, "twin")
		must(t, old.Put([]byte("old"), nil, Sync))
		if flushed {
			must(t, old.Flush())
		}
		manifests, err := fstest.Find(mem, "db", base.FileManifest)
		must(t, err)
		edits, err := fstest.ReadFile(mem, manifests[0])
		must(t, err)
		must(t, db.DropKeyspace("twin"))
		twin := mustSpace(t, db, "twin")
		must(t, twin.Put([]byte("new"), nil, Sync))
		must(t, twin.Flush())
		killed := mem.CrashClone(vfs.KeepAll())
		must(t, db.Close())
		must(t, fstest.Flip(killed, manifests[0], len(edits)+20))

		o := &Options{FS: killed}
		_, err = Repair("db", o)
		must(t, err)
		db = mustOpen(t, "db", o)
		if names := db.Keyspaces(); !slices.Equal(names, []string{base.DefaultKeyspaceName,
			"twin"}) {
			t.Errorf("flushed %v: keyspaces %v", flushed, names)
		}
		twin = mustSpace(t, db, "twin")
		for key, want := range map[string]bool{"old": false, "new": true, "own": false} {
			if ok, err := twin.Has([]byte(key)); ok != want || err != nil {
				t.Errorf("flushed %v: %s: %v, %v", flushed, key, ok, err)
			}
		}
		must(t, db.Close())
	}
}
