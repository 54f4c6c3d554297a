package lsm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestFormatOfNewDatabase: a new database is native unless LevelDB's format is asked for; one
// that exists keeps its format, whatever the options say.
func TestFormatOfNewDatabase(t *testing.T) {
	if os.Getenv(formatEnv) != "" {
		t.Skip("the default format is another one")
	}
	byName := &Options{}
	if err := byName.Set("format", "leveldb"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    *Options
		want base.Format
	}{
		{"no options", nil, base.Native},
		{"no format", &Options{}, base.Native},
		{"default", &Options{Format: DefaultFormat}, base.Native},
		{"native", &Options{Format: FormatNative}, base.Native},
		{"leveldb", &Options{Format: FormatLevelDB}, base.LevelDB},
		{"by name", byName, base.LevelDB},
	} {
		dir := t.TempDir()
		db := mustOpen(t, dir, c.o)
		if err := db.Put([]byte("k"), []byte("v"), NoSync); err != nil {
			t.Fatal(err)
		}
		mustClose(t, db)
		for _, o := range []*Options{nil, {Format: FormatLevelDB}, {Format: FormatNative},
			{Format: FormatNative, ReadOnly: true}} {
			db := mustOpen(t, dir, o)
			if v, err := db.Get([]byte("k"), nil); string(v) != "v" || err != nil {
				t.Errorf("%s: %q, %v", c.name, v, err)
			}
			if _, err := db.Keyspace("users", nil); (c.want == base.LevelDB) != errors.Is(err,
				ErrNeedsNative) {
				t.Errorf("%s: a keyspace: %v", c.name, err)
			}
			mustClose(t, db)
			if info, err := os.Stat(dir + "/CURRENT"); err != nil ||
				info.IsDir() != (c.want == base.Native) {
				t.Errorf("%s, opened with %+v: %v, %v", c.name, o, info, err)
			}
		}
	}
}

// TestStrangersWithoutCurrent: files with names of the other format do not lead a repair, or
// Destroy, of a directory that lost its CURRENT astray, however many they are.
func TestStrangersWithoutCurrent(t *testing.T) {
	strangers := map[Format]string{FormatLevelDB: "%06d.loam", FormatNative: "%06d.ldb"}
	for format, pattern := range strangers {
		for _, n := range []int{1, 30} {
			t.Run(fmt.Sprint(format, n), func(t *testing.T) {
				fsys := vfs.NewMem()
				want := directoryIn(t, fsys, format)
				lose := func() {
					t.Helper()
					if err := fsys.Remove("db/CURRENT/manifest"); err != nil &&
						format == FormatNative {
						t.Fatal(err)
					}
					if err := fsys.Remove("db/CURRENT"); err != nil {
						t.Fatal(err)
					}
				}
				lose()
				names := []string{"000901.manifest", "MANIFEST-000901"} // which no engine can read
				for i := range n {
					names = append(names, fmt.Sprintf(pattern, 1+i))
				}
				for _, name := range names {
					if err := fstest.WriteFile(fsys, "db/"+name, []byte("mine")); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := Open("db", &Options{FS: fsys}); !errors.Is(err, ErrCorruption) {
					t.Fatalf("opened without CURRENT: %v", err)
				}
				o := &Options{FS: fsys}
				if report, err := Repair("db", o); err != nil || !report.Changed() {
					t.Fatalf("%+v, %v", report, err)
				}
				db := mustOpen(t, "db", o)
				if db.engine.Native() != (format == FormatNative) {
					t.Error("repaired in the other format")
				}
				holds(t, db, want)
				mustClose(t, db)
				for _, name := range names[2:] {
					if b, err := fstest.ReadFile(fsys, "db/"+name); err != nil ||
						string(b) != "mine" {
						t.Errorf("%s: %q, %v", name, b, err)
					}
				}
				lose()
				if err := Destroy("db", o); err != nil {
					t.Fatal(err)
				}
				if levelDB, native := formatsOf(t, fsys); format == FormatNative && native > 0 ||
					format == FormatLevelDB && levelDB > 0 {
					t.Errorf("left are %d native and %d LevelDB files", native, levelDB)
				}
			})
		}
	}
}

// TestDamagedKeyspaceEdit flips bits of each byte of a MANIFEST whose last edit creates or drops
// a keyspace, or names its merge operator, in a database that was killed then: Open fails, or
// finds all that was acknowledged.
func TestDamagedKeyspaceEdit(t *testing.T) {
	create := func(t *testing.T, db *DB) { mustSpace(t, db, "users") }
	for _, c := range []struct {
		name string
		last func(t *testing.T, db *DB)
		want []string
	}{
		{"create", create, []string{"default", "old", "users"}},
		{"drop", func(t *testing.T, db *DB) {
			if err := db.DropKeyspace("old"); err != nil {
				t.Fatal(err)
			}
		}, []string{"default"}},
		{"operator", func(t *testing.T, db *DB) {
			k, err := db.Keyspace("users",
				&KeyspaceOptions{MergeOperator: MergeOperatorNamed("max")})
			if err == nil {
				err = k.Put([]byte("k"), []byte("v"), NoSync)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{"default", "old", "users"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			db := openSpaces(t, mem, nil)
			mustSpace(t, db, "old")
			c.last(t, db)
			killed := mem.CrashClone(vfs.KeepAll())
			mustClose(t, db)
			paths, err := fstest.Find(killed, "db", base.FileManifest)
			if err != nil || len(paths) != 1 {
				t.Fatal(paths, err)
			}
			b, err := fstest.ReadFile(killed, paths[0])
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i := range b {
				for _, bit := range []byte{1 << (i % 8), 0xff} {
					fsys := killed.Clone()
					f := slices.Clone(b)
					f[i] ^= bit
					if err := errors.Join(fsys.Remove(paths[0]),
						fstest.WriteFile(fsys, paths[0], f)); err != nil {
						t.Fatal(err)
					}
					db, err := Open("db", &Options{FS: fsys})
					if err != nil {
						found++
						if !errors.Is(err, ErrCorruption) && !errors.Is(err, ErrNewerFormat) &&
							!errors.Is(err, ErrNotADatabase) {
							t.Errorf("byte %d: %v", i, err)
						}
						continue
					}
					if got := db.Keyspaces(); !slices.Equal(got, c.want) {
						t.Errorf("byte %d of %d ^ %#x: keyspaces %q", i, len(b), bit, got)
					}
					mustClose(t, db)
				}
			}
			if found < len(b) {
				t.Errorf("%d of %d flips were found", found, 2*len(b))
			}
		})
	}
}

// TestDestroyAfterUpgrade: what an upgrade could not delete is the database's, its log of messages
// is LevelDB's.
func TestDestroyAfterUpgrade(t *testing.T) {
	mem := vfs.NewMem()
	levelDBDirectory(t, mem)
	if err := fstest.WriteFile(mem, "db/LOG", []byte("of LevelDB")); err != nil {
		t.Fatal(err)
	}
	busy := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if kind, _ := base.LevelDB.ParseFileName(path.Base(op.Name)); op.Kind == vfs.OpRemove &&
			(kind == base.FileLog || kind == base.FileManifest) {
			out.Err = errors.New("busy")
		}
		return out
	})
	if err := Upgrade("db", &Options{FS: busy}); err != nil {
		t.Fatal(err)
	}
	if levelDB, native := formatsOf(t, mem); levelDB < 3 || native == 0 {
		t.Fatalf("%d LevelDB files, %d native ones: nothing was left", levelDB, native)
	}
	if err := Destroy("db", &Options{FS: mem}); err != nil {
		t.Fatal(err)
	}
	if names, err := mem.List("db"); err != nil || !slices.Equal(names, []string{"LOG"}) {
		t.Errorf("left are %v, %v", names, err)
	}
}
