package lsm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm/crashfs"
)

// levelDBDirectory makes a LevelDB directory with tables, an unflushed log, and deleted
// keys. It returns what is in it.
func levelDBDirectory(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	return directoryIn(t, fsys, FormatLevelDB)
}

// directoryIn is levelDBDirectory in either format.
func directoryIn(t *testing.T, fsys vfs.FS, format Format) map[string]string {
	t.Helper()
	db, err := Open("db", &Options{FS: fsys, Format: format, WriteBufferSize: 64 << 10,
		DisableCompaction: true})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range 600 {
		key, value := fmt.Sprintf("key%03d", i%200), fmt.Sprintf("value %d", i)
		if err := db.Put([]byte(key), []byte(value), NoSync); err != nil {
			t.Fatal(err)
		}
		want[key] = value
		if i%150 == 149 {
			mustFlush(t, db)
		}
		if i%100 == 99 {
			if err := db.Delete([]byte(key), NoSync); err != nil {
				t.Fatal(err)
			}
			delete(want, key)
		}
	}
	for i := range 50 {
		key := fmt.Sprintf("log%03d", i)
		if err := db.Put([]byte(key), []byte(key), NoSync); err != nil {
			t.Fatal(err)
		}
		want[key] = key
	}
	mustClose(t, db)
	return want
}

// holds checks all of a database's contents.
func holds(t *testing.T, db *DB, want map[string]string) {
	t.Helper()
	var err error
	n := 0
	for k, v := range db.All(nil, nil, &err) {
		if n++; want[string(k)] != string(v) {
			t.Errorf("%s is %q, want %q", k, v, want[string(k)])
		}
	}
	if err != nil || n != len(want) {
		t.Errorf("%d of %d keys, %v", n, len(want), err)
	}
}

// formatsOf counts the files of a directory by the format of their names.
func formatsOf(t *testing.T, fsys vfs.FS) (levelDB, native int) {
	t.Helper()
	names, err := fsys.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if f, _ := base.LevelDB.ParseFileName(name); f != base.FileUnknown && f != base.FileLock &&
			f != base.FileCurrent {
			levelDB++
		}
		if f, _ := base.Native.ParseFileName(name); f != base.FileUnknown && f != base.FileLock &&
			f != base.FileCurrent {
			native++
		}
	}
	return levelDB, native
}

// TestUpgradeAfterTwoPowerCuts cuts the power at calls of an upgrade, and again at calls of the
// opening and writing that follow: the next upgrade succeeds, and the database has what it had.
func TestUpgradeAfterTwoPowerCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine opens hundreds of times: the run without -short has it")
	}
	options := func(fs *crashfs.FS) *Options { return &Options{FS: fs, Format: FormatLevelDB} }
	write := func(fs *crashfs.FS) error {
		db, err := Open("/d/db", options(fs))
		if err != nil {
			return err
		}
		return errors.Join(db.Put([]byte("k"), []byte("v"), Sync), db.Flush(),
			db.Put([]byte("l"), []byte("v"), Sync), db.Close())
	}
	fs := crashfs.New()
	must(t, errors.Join(write(fs), write(fs)))
	tried, upgraded, found := 0, 0, 0
	for first := 1; upgraded == 0; first++ {
		begun := fs.Crash(crashfs.KeepAll, 1)
		_, changes := begun.Calls()
		begun.CutAt(changes + first)
		if Upgrade("/d/db", options(begun)) == nil {
			upgraded++
		}
		for second, written := 1, false; !written; second += seed.Scale(12, 12, 6) {
			for _, loss := range []crashfs.Loss{crashfs.KeepAll, crashfs.DropUnsynced,
				crashfs.RandomBlocks} {
				opened := begun.Crash(loss, uint64(second))
				_, changes := opened.Calls()
				opened.CutAt(changes + second)
				written = write(opened) == nil
				last := opened.Crash(loss, uint64(second))
				if names, err := last.List("/d/db"); err == nil &&
					slices.Contains(names, "CURRENT.new") {
					found++
				}
				if err := Upgrade("/d/db", options(last)); err != nil {
					t.Fatalf("power cuts at call %d, then %d, %v: %v", first, second, loss, err)
				}
				o := options(last)
				o.ErrorIfMissing = true
				db, err := Open("/d/db", o)
				must(t, err)
				holds(t, db, map[string]string{"k": "v", "l": "v"})
				mustClose(t, db)
				tried++
			}
		}
	}
	if found == 0 || tried < 100 {
		t.Errorf("%d trials, %d of them found an upgrade that was cut short", tried, found)
	}
}

func TestUpgrade(t *testing.T) {
	fsys := vfs.NewMem()
	want := levelDBDirectory(t, fsys)
	tables, err := fstest.Find(fsys, "db", base.FileTable)
	if err != nil || len(tables) < 3 {
		t.Fatal(tables, err)
	}
	before := map[string][]byte{}
	for _, name := range tables {
		if before[strings.TrimSuffix(name, path.Ext(name))], err = fstest.ReadFile(fsys,
			name); err != nil {
			t.Fatal(err)
		}
	}
	if err := Upgrade("db", &Options{FS: fsys, ReadOnly: true}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Errorf("read-only: %v", err)
	}
	for i := range 2 { // the second finds a native database
		if err := Upgrade("db", &Options{FS: fsys}); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if levelDB, native := formatsOf(t, fsys); levelDB != 0 || native < 5 {
			names, _ := fsys.List("db")
			t.Fatalf("%d: %v", i, names)
		}
		for name, b := range before {
			if after, err := fstest.ReadFile(fsys, name+".loam"); err != nil ||
				string(after) != string(b) {
				t.Errorf("%d: table %s was changed, %v", i, name, err)
			}
		}
	}
	db, err := Open("db", &Options{FS: fsys, ErrorIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, db, want)
	users := mustSpace(t, db, "users")
	putIn(t, db, "key000", "new", nil, users)
	want["key000"] = "new"
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, db, want)
	mustClose(t, db)
	if after, err := fstest.Find(fsys, "db", base.FileTable); err != nil ||
		len(after) >= len(tables) {
		t.Errorf("tables %v, %v", after, err)
	}
}

// TestUpgradeOfDamagedTable: an upgrade that finds a table damaged, missing or no file changes
// nothing, so that LevelDB's own tools still apply.
func TestUpgradeOfDamagedTable(t *testing.T) {
	for what, damage := range map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 100) },
		"no table": func(path string) error {
			return os.WriteFile(path, []byte("a letter of somebody's"), 0o600)
		},
		"a directory": func(path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700),
				os.WriteFile(filepath.Join(path, "mine"), nil, 0o600))
		},
	} {
		dir := t.TempDir()
		db := mustOpen(t, dir, &Options{Format: FormatLevelDB})
		must(t, db.Put([]byte("a"), []byte("1"), NoSync))
		mustFlush(t, db)
		must(t, db.Put([]byte("b"), []byte("2"), NoSync))
		mustClose(t, db)
		tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
		if err != nil || len(tables) != 1 {
			t.Fatal(tables, err)
		}
		must(t, damage(tables[0]))
		before := readTree(t, dir)
		err = Upgrade(dir, nil)
		if err == nil || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
			t.Errorf("%s: the error does not name %s: %v", what, tables[0], err)
		}
		if after := readTree(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: the directory had %d files, has %v", what, len(before), after)
		}
	}
}

func TestUpgradeNeedsADatabase(t *testing.T) {
	fsys := vfs.NewMem()
	if err := Upgrade("db", &Options{FS: fsys}); !errors.Is(err, ErrDoesNotExist) {
		t.Errorf("nothing to upgrade: %v", err)
	}
	levelDBDirectory(t, fsys)
	for _, name := range []string{"000900.loam", "000900.wal", "000900.manifest"} {
		path := "db/" + name
		if err := fstest.WriteFile(fsys, path, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		if err := Upgrade("db", &Options{FS: fsys}); !errors.Is(err, ErrInvalidArgument) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if levelDB, native := formatsOf(t, fsys); levelDB < 3 || native != 1 {
			t.Errorf("%s: %d, %d", name, levelDB, native)
		}
		if err := fsys.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := Upgrade("db", &Options{FS: fsys}); err != nil {
		t.Error(err)
	}
}

// TestStrangersOfTheOtherFormat: files with names of the other format are left alone,
// whatever their numbers.
func TestStrangersOfTheOtherFormat(t *testing.T) {
	strangers := map[Format][]string{
		FormatLevelDB: {"000001.loam", "000005.loam", "000007.wal", "000002.manifest"},
		FormatNative: {"000001.ldb", "000005.ldb", "000006.sst", "000007.log", "MANIFEST-000002",
			"000004.dbtmp", "LOG", "LOG.old"},
	}
	for format, names := range strangers {
		t.Run(format.String(), func(t *testing.T) {
			fsys := vfs.NewMem()
			o := &Options{FS: fsys, Format: format, WriteBufferSize: 64 << 10}
			mustClose(t, mustOpen(t, "db", o))
			for _, name := range names {
				if err := fstest.WriteFile(fsys, "db/"+name, []byte("mine")); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 3 {
				db := mustOpen(t, "db", o)
				if err := db.Put([]byte("k"), fmt.Append(nil, i), NoSync); err != nil {
					t.Fatal(err)
				}
				mustFlush(t, db)
				if err := db.CompactRange(nil, nil); err != nil {
					t.Fatal(err)
				}
				holds(t, db, map[string]string{"k": fmt.Sprint(i)})
				if !db.RecoveryReport().WasClean {
					t.Errorf("%+v", db.RecoveryReport())
				}
				mustClose(t, db)
				if report, err := Repair("db", o); err != nil || report.Changed() {
					t.Errorf("repair: %+v, %v", report, err)
				}
			}
			if err := Destroy("db", o); err != nil {
				t.Fatal(err)
			}
			left, err := fsys.List("db")
			if err != nil || len(left) != len(names) {
				t.Errorf("left are %v, %v", left, err)
			}
			for _, name := range names {
				if b, err := fstest.ReadFile(fsys, "db/"+name); err != nil || string(b) != "mine" {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
		})
	}
}
