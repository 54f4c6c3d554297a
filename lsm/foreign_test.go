package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// foreignDirs are the directories that testdata/foreign/maker makes, with the engines that wrote
// them.
var foreignDirs = map[string]string{
	"pebble-1-oldest": "Pebble", "pebble-1-newest": "Pebble", "pebble-2-oldest": "Pebble",
	"pebble-2-newest": "Pebble", "badger-3": "Badger", "badger-4": "Badger", "rocksdb": "RocksDB",
	"lmdb": "LMDB", "bbolt": "bbolt", "sqlite": "SQLite",
}

// onDirectory are the calls that take the directory of a database.
var onDirectory = map[string]func(dir string, o *Options) error{
	"Open":         func(dir string, o *Options) error { return closed(Open(dir, o)) },
	"OpenFollower": func(dir string, o *Options) error { return closed(OpenFollower(dir, o)) },
	"Repair":       func(dir string, o *Options) error { _, err := Repair(dir, o); return err },
	"Destroy":      Destroy,
	"Upgrade":      Upgrade,
	"Open read-only": func(dir string, o *Options) error {
		o.ReadOnly = true
		return closed(Open(dir, o))
	},
	"Open existing": func(dir string, o *Options) error {
		o.ErrorIfMissing = true
		return closed(Open(dir, o))
	},
	"Open LevelDB": func(dir string, o *Options) error {
		o.Format = FormatLevelDB
		return closed(Open(dir, o))
	},
	"Export": func(dir string, o *Options) error {
		return Export(context.Background(), dir, dir+".copy", FormatNative, o, nil)
	},
}

func closed[D interface{ Close() error }](db D, err error) error {
	if err == nil {
		err = errors.Join(errors.New("it was opened"), db.Close())
	}
	return err
}

// TestForeignDirectories gives directories of other engines, also ones that lost files, to every
// call that takes a directory.
func TestForeignDirectories(t *testing.T) {
	for golden, engine := range foreignDirs {
		whole := readTree(t, filepath.Join("../testdata/foreign", golden))
		for _, lost := range []string{"", "^OPTIONS", "^marker", "^(OPTIONS|marker|CURRENT)",
			"^(OPTIONS|marker|MANIFEST)", "^KEYREGISTRY",
			"^(KEYREGISTRY|MANIFEST|DISCARD)", "^(MANIFEST|CURRENT)", "^LOCK", `[^t]$`} {
			files := map[string]string{}
			for name, contents := range whole {
				if lost == "" || !regexp.MustCompile(lost).MatchString(name) {
					files[name] = contents
				}
			}
			if lost != "" && len(files) == len(whole) || len(files) == 0 {
				continue
			}
			for call, do := range onDirectory {
				t.Run(fmt.Sprintf("%s/%s/without %s", golden, call, lost), func(t *testing.T) {
					dir := t.TempDir()
					writeTree(t, dir, files)
					err := do(dir, &Options{})
					if !errors.Is(err, ErrNotADatabase) || !strings.Contains(err.Error(), engine) {
						t.Errorf("%v; want one that names %s", err, engine)
					}
					if got := readTree(t, dir); fmt.Sprint(got) != fmt.Sprint(files) {
						t.Errorf("the directory is changed: %d files of %d", len(got), len(files))
					}
				})
			}
		}
	}
}

// TestDestroyLeavesStrangers has files of other engines beside a database: as long as some have
// names of the database's, nothing is removed; the others stay.
func TestDestroyLeavesStrangers(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		for _, lost := range []string{"", "MANIFEST-*", "*.manifest", "CURRENT"} {
			dir := t.TempDir()
			db, err := Open(dir, &Options{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				err = errors.Join(err, db.Put([]byte("k"), []byte("v"), Sync), db.Flush())
			}
			if err := errors.Join(err, db.Put([]byte("k"), []byte("v"), Sync),
				db.Close()); err != nil {
				t.Fatal(err)
			}
			strangers := map[string]string{
				"app.sqlite": "SQLite format 3\x00", "000077.log": "a log of mine: no record",
				"notes.txt": "", "MANIFEST-of-goods": "tea", "000099.ldb": "too short",
				"000098.ldb": strings.Repeat("no table ", 20),
			}
			writeTree(t, dir, strangers)
			gone, err := filepath.Glob(filepath.Join(dir, lost))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range gone {
				if name != dir && filepath.Base(name) != "MANIFEST-of-goods" {
					if err := os.RemoveAll(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			if format == FormatLevelDB {
				before := readTree(t, dir)
				before["LOCK"] = ""
				err := Destroy(dir, nil)
				after := readTree(t, dir)
				after["LOCK"] = ""
				if !errors.Is(err, ErrNotADatabase) || !maps.Equal(before, after) {
					t.Errorf("without %q: %d files of %d are left, %v", lost, len(after),
						len(before), err)
				}
				for _, name := range []string{"000077.log", "000098.ldb", "000099.ldb"} {
					must(t, os.Remove(filepath.Join(dir, name)))
					delete(strangers, name)
				}
			}
			err = Destroy(dir, nil)
			if got := readTree(t, dir); err != nil || fmt.Sprint(got) != fmt.Sprint(strangers) {
				t.Errorf("%v without %q: left are %v, %v", format, lost, got, err)
			}
		}
	}
}

// TestStrangersCurrent: a directory whose only file of a database's name is a CURRENT that names no
// MANIFEST is somebody else's.
func TestStrangersCurrent(t *testing.T) {
	for _, name := range []string{"CURRENT", "CURRENT/manifest"} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("notes on the current\n"), 0o600))
		before := readTree(t, dir)
		for what, call := range map[string]func(string, *Options) error{
			"Destroy": Destroy,
			"Repair":  func(dir string, o *Options) error { _, err := Repair(dir, o); return err },
			"Open":    func(dir string, o *Options) error { return closed(Open(dir, o)) },
			"Upgrade": Upgrade,
		} {
			err := call(dir, nil)
			after := readTree(t, dir)
			delete(after, "LOCK")
			if err == nil || !maps.Equal(before, after) ||
				(what == "Destroy" || what == "Repair") && !errors.Is(err, ErrNotADatabase) {
				t.Errorf("%s of %s: %v, and left is %v", what, name, err, after)
			}
		}
	}
}

// TestStrangersCurrentInNative: a text in the place of a native CURRENT does not make the directory
// one of LevelDB's: a repair keeps the entries, and sets the text aside.
func TestStrangersCurrentInNative(t *testing.T) {
	for _, destroy := range []bool{false, true} {
		dir := t.TempDir()
		db := mustOpen(t, dir, nil)
		must(t, db.Put([]byte("a"), []byte("1"), NoSync))
		mustFlush(t, db)
		must(t, db.Put([]byte("b"), []byte("2"), NoSync))
		mustClose(t, db)
		text := "notes on the current\n"
		path := filepath.Join(dir, "CURRENT")
		must(t, errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600)))
		if destroy {
			err := Destroy(dir, nil)
			if _, left := os.Stat(dir); err != nil || !errors.Is(left, fs.ErrNotExist) {
				t.Errorf("Destroy leaves the directory: %v, %v", left, err)
			}
			continue
		}
		if _, err := Repair(dir, nil); err != nil {
			t.Fatal(err)
		}
		if got := readTree(t, dir)[filepath.Join("lost", "CURRENT")]; got != text {
			t.Errorf("set aside is %q", got)
		}
		db = mustOpen(t, dir, &Options{ErrorIfMissing: true})
		holds(t, db, map[string]string{"a": "1", "b": "2"})
		mustClose(t, db)
	}
}

// TestRepairOfNoDatabase: where there is no database a repair leaves no LOCK.
func TestRepairOfNoDatabase(t *testing.T) {
	for _, files := range []map[string]string{{}, {"notes.txt": "tea"}} {
		dir := t.TempDir()
		writeTree(t, dir, files)
		_, err := Repair(dir, nil)
		after := readTree(t, dir)
		if !errors.Is(err, ErrDoesNotExist) || !maps.Equal(after, files) {
			t.Errorf("%v: left are %v", err, after)
		}
	}
}

// TestDestroyOfNoDatabase: files with names of what databases have besides are somebody else's
// where there is no database.
func TestDestroyOfNoDatabase(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"LOG": "first day: rain", "LOG.old": "home", "LOADING": "a van"}
	writeTree(t, dir, files)
	err := Destroy(dir, nil)
	if after := readTree(t, dir); err != nil || !maps.Equal(after, files) {
		t.Errorf("%v: left are %v", err, after)
	}
	mustClose(t, mustOpen(t, dir, &Options{Format: FormatLevelDB}))
	must(t, Destroy(dir, nil))
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left are %v", readTree(t, dir))
	}
}

// TestDestroyZeroedLogs: logs whose beginning a power cut zeroed are the database's.
func TestDestroyZeroedLogs(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem, Format: FormatLevelDB})
	must(t, db.Put([]byte("k"), bytes.Repeat([]byte("v"), 100<<10), NoSync))
	must(t, db.Close())
	logs, err := fstest.Find(mem, "db", base.FileLog)
	must(t, err)
	contents, err := fstest.ReadFile(mem, logs[0])
	must(t, err)
	clear(contents[:32<<10])
	must(t, mem.Remove(logs[0]))
	for _, name := range []string{logs[0], "db/000999.log", "db/999999.log"} {
		must(t, fstest.WriteFile(mem, name, contents))
	}
	must(t, Destroy("db", &Options{FS: mem}))
	if names, err := mem.List("db"); err == nil && len(names) > 0 {
		t.Errorf("left are %q", names)
	}
}

// readTree returns the contents of all files below dir.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+string(filepath.Separator))] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, contents := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopiesIntoForeignDirectories names directories of other engines as targets of copies.
func TestCopiesIntoForeignDirectories(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	source := filepath.Join(t.TempDir(), "source")
	if err := closed(Open(source, nil)); err == nil {
		t.Fatal("closed says nothing")
	}
	for golden := range foreignDirs {
		files := readTree(t, filepath.Join("../testdata/foreign", golden))
		for call, do := range map[string]func(to string) error{
			"Checkpoint": func(to string) error { return db.Checkpoint(context.Background(), to) },
			"Export": func(to string) error {
				return Export(context.Background(), source, to, FormatNative, nil, nil)
			},
		} {
			dir := t.TempDir()
			writeTree(t, dir, files)
			if err := do(dir); !errors.Is(err, ErrExists) {
				t.Errorf("%s to %s: %v", call, golden, err)
			}
			if got := readTree(t, dir); fmt.Sprint(got) != fmt.Sprint(files) {
				t.Errorf("%s to %s: the directory is changed", call, golden)
			}
		}
	}
}
