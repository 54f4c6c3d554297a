package surroundings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	_ "github.com/loamdb/loam/internal/testkit" // for LOAM_FORMAT
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, o *lsm.Options) *lsm.DB {
	t.Helper()
	db, err := lsm.Open(dir, o)
	must(t, err)
	return db
}

// small rotates logs and flushes every few hundred puts.
func small() *lsm.Options { return &lsm.Options{WriteBufferSize: 64 << 10} }

func key(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// fill writes keys [from, to), some of them and the last synced, and returns
// the first error.
func fill(db *lsm.DB, from, to int) error {
	value := bytes.Repeat([]byte("v"), 100)
	for i := from; i < to; i++ {
		sync := lsm.NoSync
		if i%100 == 0 || i == to-1 {
			sync = lsm.Sync
		}
		if err := db.Put(key(i), value, sync); err != nil {
			return fmt.Errorf("put %d: %w", i, err)
		}
	}
	return nil
}

// want reads keys [0, n) back.
func want(t testing.TB, db *lsm.DB, n int) {
	t.Helper()
	for i := range n {
		if _, err := db.Get(key(i), nil); err != nil {
			t.Fatalf("key %d of %d: %v", i, n, err)
		}
	}
}

// reopened opens dir, reads keys [0, n) and closes.
func reopened(t testing.TB, dir string, n int) {
	t.Helper()
	db := open(t, dir, nil)
	want(t, db, n)
	must(t, db.Close())
}

// listing is the names and contents of a directory's files.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			out[name] = e.Type().String()
			return nil
		}
		b, err := os.ReadFile(path)
		out[name] = string(b)
		return err
	}))
	return out
}

func same(t testing.TB, dir string, before map[string]string) {
	t.Helper()
	after := listing(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s changed", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s is new", name)
		}
	}
}

// copyDir copies a directory of an idle database, in which only obsolete files may be deleted
// meanwhile.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		name, err2 := filepath.Rel(from, path)
		if err = errors.Join(err, err2); err != nil || e.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, name), 0o700))
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.WriteFile(filepath.Join(to, name), b, 0o600))
	}))
}

// Two databases with the same relative name: a change of the working directory
// does not lead from one to the other.
func TestChangeOfWorkingDirectory(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"a", "b"} {
		db := open(t, filepath.Join(root, d, "db"), nil)
		must(t, db.Put([]byte("which"), []byte(d), lsm.Sync))
		must(t, db.Close())
	}
	t.Chdir(filepath.Join(root, "a"))
	db := open(t, "db", small())
	b := filepath.Join(root, "b", "db")
	before := listing(t, b)
	t.Chdir(filepath.Join(root, "b"))
	must(t, fill(db, 0, 3000))
	must(t, db.Flush())
	must(t, db.CompactRange(nil, nil))
	want(t, db, 3000)
	same(t, b, before)
	must(t, db.Close())
	same(t, b, before)
	db = open(t, filepath.Join(root, "a", "db"), nil)
	want(t, db, 3000)
	if v, err := db.Get([]byte("which"), nil); err != nil || string(v) != "a" {
		t.Errorf("which: %q, %v", v, err)
	}
	must(t, db.Close())
}

// A custom file system gets absolute names, so that it may be the system's.
func TestChangeOfWorkingDirectoryCustomFS(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "b"), 0o700))
	t.Chdir(root)
	o := small()
	o.FS = struct{ lsm.FS }{vfs.Default}
	db := open(t, "db", o)
	t.Chdir(filepath.Join(root, "b"))
	must(t, fill(db, 0, 1500))
	must(t, db.Close())
	same(t, filepath.Join(root, "b"), map[string]string{})
	reopened(t, filepath.Join(root, "db"), 1500)
}

// A process whose working directory was removed can still open by full path.
func TestNoWorkingDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the working directory cannot be removed there")
	}
	root := t.TempDir()
	gone := filepath.Join(root, "gone")
	must(t, os.Mkdir(gone, 0o700))
	t.Chdir(gone)
	must(t, os.Remove(gone))
	dir := filepath.Join(root, "db")
	db := open(t, dir, small())
	must(t, fill(db, 0, 700))
	must(t, db.Close())
	reopened(t, dir, 700)
}

// One directory has one lock, whatever it is called.
func TestOneDirectoryManyNames(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "real")
	db := open(t, dir, nil)
	defer db.Close()
	link := filepath.Join(root, "link")
	must(t, os.Symlink(dir, link))
	t.Chdir(root)
	for _, name := range []string{dir, "real", "./real", "real/", "link", link, link + "/.",
		"real/../real", dir + "//"} {
		if again, err := lsm.Open(name, nil); !errors.Is(err, lsm.ErrLocked) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				again.Close()
			}
		}
	}
}

// A link to the directory may be moved to another one while it is open.
func TestLinkIsMoved(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"old", "new"} {
		reopenedEmpty(t, filepath.Join(root, d))
	}
	link := filepath.Join(root, "link")
	must(t, os.Symlink("old", link))
	db := open(t, link, small())
	before := listing(t, filepath.Join(root, "new"))
	must(t, os.Remove(link))
	must(t, os.Symlink("new", link))
	must(t, fill(db, 0, 1500))
	must(t, db.Close())
	same(t, filepath.Join(root, "new"), before)
	reopened(t, filepath.Join(root, "old"), 1500)
}

func reopenedEmpty(t testing.TB, dir string) {
	t.Helper()
	must(t, open(t, dir, nil).Close())
}

// holdsDirectories says that an open directory stays the same one whatever
// becomes of its name. Windows does not let it be renamed.
func holdsDirectories(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open directory cannot be renamed there")
	}
}

// The directory gets another name, and a new database its old one.
func TestDirectoryIsRenamed(t *testing.T) {
	holdsDirectories(t)
	root := t.TempDir()
	dir, moved := filepath.Join(root, "db"), filepath.Join(root, "moved")
	db := open(t, dir, small())
	must(t, fill(db, 0, 700))
	must(t, os.Rename(dir, moved))
	newer := open(t, dir, small()) // another directory: it is not locked
	must(t, newer.Put([]byte("mine"), nil, lsm.Sync))
	must(t, newer.Close())
	before := listing(t, dir)
	must(t, fill(db, 700, 3000))
	must(t, db.Flush())
	must(t, db.CompactRange(nil, nil))
	want(t, db, 3000)
	must(t, db.Close())
	same(t, dir, before)
	reopened(t, moved, 3000)
}

// removeAll removes a directory into which the background may still write.
func removeAll(t testing.TB, dir string) {
	t.Helper()
	var err error
	for range 1000 {
		if err = os.RemoveAll(dir); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// The directory is removed: no synced put is acknowledged from then on, and a
// directory that takes its name is left alone.
func TestDirectoryIsRemoved(t *testing.T) {
	holdsDirectories(t)
	dir := filepath.Join(t.TempDir(), "db")
	db := open(t, dir, small())
	must(t, fill(db, 0, 700))
	removeAll(t, dir)
	must(t, os.Mkdir(dir, 0o700))
	if err := fill(db, 700, 701); err == nil {
		t.Error("a put into a file that is gone was acknowledged as synced")
	}
	if err := fill(db, 701, 3000); err == nil {
		t.Error("3,000 puts into a directory that is gone")
	}
	_ = db.Close()
	same(t, dir, map[string]string{})
}

// Puts that are not synced may be lost with the directory, but not in silence.
func TestDirectoryIsRemovedNoSync(t *testing.T) {
	holdsDirectories(t)
	dir := filepath.Join(t.TempDir(), "db")
	db := open(t, dir, nil)
	must(t, db.Put([]byte("a"), []byte("b"), lsm.NoSync))
	removeAll(t, dir)
	if err := db.Close(); !errors.Is(err, lsm.ErrDirectoryChanged) {
		t.Errorf("Close: %v", err)
	}
}

// Another directory takes the name, by rename.
func TestDirectoryIsReplaced(t *testing.T) {
	holdsDirectories(t)
	root := t.TempDir()
	dir := filepath.Join(root, "db")
	db := open(t, dir, small())
	must(t, fill(db, 0, 600))
	must(t, db.Flush())
	must(t, fill(db, 600, 700))
	copied := filepath.Join(root, "copy")
	copyDir(t, dir, copied)
	must(t, fill(db, 700, 1000))
	must(t, os.Rename(dir, filepath.Join(root, "was")))
	must(t, os.Rename(copied, dir))
	before := listing(t, dir)
	must(t, fill(db, 1000, 3000))
	must(t, db.Close())
	same(t, dir, before)
	reopened(t, dir, 700)
	reopened(t, filepath.Join(root, "was"), 3000)
}

// An old copy is unpacked over the open database, as tar and rsync do it: each
// file is a new one that is renamed over the old. What was acknowledged before
// is the unpacker's to lose; nothing is acknowledged afterwards.
func TestDirectoryIsRestored(t *testing.T) {
	holdsDirectories(t)
	for _, keepLock := range []bool{false, true} {
		t.Run(fmt.Sprintf("keepLock=%v", keepLock), func(t *testing.T) {
			root := t.TempDir()
			dir, copied := filepath.Join(root, "db"), filepath.Join(root, "copy")
			o := small()
			o.DisableCompaction = true
			db := open(t, dir, o)
			must(t, fill(db, 0, 900))
			must(t, db.Flush())
			must(t, fill(db, 900, 1000)) // in the log
			copyDir(t, dir, copied)
			must(t, fill(db, 1000, 1100)) // into the log of the copy, or the next
			names, err := os.ReadDir(dir)
			must(t, err)
			for _, e := range names { // rsync --delete, too
				if _, err := os.Stat(filepath.Join(copied, e.Name())); err != nil {
					// deleted meanwhile
					if err := os.Remove(filepath.Join(dir, e.Name())); !errors.Is(err,
						fs.ErrNotExist) {
						must(t, err)
					}
				}
			}
			must(t, filepath.WalkDir(copied, func(path string, e fs.DirEntry, err error) error {
				// same size and time: rsync leaves it
				if err != nil || e.IsDir() || keepLock && e.Name() == "LOCK" {
					return err
				}
				name, err := filepath.Rel(copied, path)
				must(t, err)
				return os.Rename(path, filepath.Join(dir, name))
			}))
			before := listing(t, dir)
			if err := fill(db, 1100, 1101); err == nil {
				t.Error("a put into a file that was replaced was acknowledged as synced")
			}
			for i := 1101; i < 4000; i++ {
				_ = db.Put(key(i), make([]byte, 100), lsm.NoSync)
			}
			_ = db.Flush()
			_ = db.CompactRange(nil, nil)
			_ = db.Close()
			same(t, dir, before)
			reopened(t, dir, 1000)
		})
	}
}

// LOCK is gone or another file: somebody else may have the database. Nothing
// is created or deleted any more.
func TestLockIsRemoved(t *testing.T) {
	holdsDirectories(t)
	for _, replace := range []bool{false, true} {
		dir := t.TempDir()
		db := open(t, dir, small())
		must(t, fill(db, 0, 100))
		must(t, os.Remove(filepath.Join(dir, "LOCK")))
		if replace {
			must(t, os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600))
		}
		names := func() (out []string) {
			for name := range listing(t, dir) {
				out = append(out, name)
			}
			slices.Sort(out)
			return out
		}
		before := names()
		err := fill(db, 100, 5000)
		if !errors.Is(err, lsm.ErrDirectoryChanged) {
			t.Errorf("puts went on: %v", err)
		}
		_ = db.Close()
		if after := names(); !slices.Equal(before, after) {
			t.Errorf("%v became %v", before, after)
		}
		reopened(t, dir, 100)
	}
}

// Parents are made, or not, as the option says; the directory itself always.
func TestCreateDirs(t *testing.T) {
	root := t.TempDir()
	var o lsm.Options
	must(t, o.Set("create_dirs", "false"))
	if _, err := lsm.Open(filepath.Join(root, "a", "b"), &o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without parents: %v", err)
	}
	same(t, root, map[string]string{})
	must(t, open(t, filepath.Join(root, "a"), &o).Close())
	must(t, o.Set("create_dirs", "true"))
	must(t, open(t, filepath.Join(root, "x", "y", "z"), &o).Close())
	must(t, open(t, filepath.Join(root, "p", "q"), nil).Close())
}

// isNative reports whether the database in dir is a native one.
func isNative(t testing.TB, dir string) bool {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "CURRENT"))
	must(t, err)
	return info.IsDir()
}

// strays are files that are nobody's: a database leaves them alone, byte by
// byte, and neither reads nor counts them.
func strays(native bool) map[string]string {
	out := make(map[string]string)
	suffixes := []string{".log", ".ldb", ".sst", ".dbtmp", ".log.lost", ".vlog2", ".LOG"}
	if native {
		suffixes = append(suffixes, ".wal", ".loam", ".manifest", ".wal.lost", ".WAL")
	}
	garbage := strings.Repeat("not a database file\n", 100)
	for i, number := range []string{
		"5000000000000000000", "4611686018427387904", "9223372036854775807", "18446744073709551615",
		"18446744073709551616", "2305843009213693951", "1000000000000",
		"99999999999999999999999999999999999999", "1", "2", "02", "00003", "0000002",
		"0000000000004", "00000a", "+00001", "-00001", " 00001", "000001 ", "0x0001",
	} {
		for j, suffix := range suffixes {
			text := garbage
			if (i+j)%3 == 0 {
				text = ""
			}
			out[number+suffix] = text
		}
		out["MANIFEST-"+number] = garbage
	}
	for _, name := range []string{"MANIFEST", "MANIFEST-", "CURRENT.bak", "current", "LOCK2",
		".log", ".ldb", "notes.txt", "000001", "log", "OPTIONS", "000001.log~", "ünïcödé.ldb"} {
		out[name] = garbage
	}
	return out
}

func TestStrayNames(t *testing.T) {
	dir := t.TempDir()
	reopenedEmpty(t, dir)
	files := strays(isNative(t, dir))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	check := func() {
		t.Helper()
		for name, text := range files {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
	}
	for n := 0; n < 4; n++ {
		db := open(t, dir, small())
		if r := db.RecoveryReport(); !r.WasClean || r.Logs > 1 {
			t.Errorf("open %d: %+v", n, r)
		}
		want(t, db, n*500)
		must(t, fill(db, n*500, (n+1)*500))
		if n%2 == 0 {
			must(t, db.CompactRange(nil, nil))
		}
		must(t, db.Close())
		check()
		report, err := lsm.Repair(dir, nil)
		must(t, err)
		if report.Changed() {
			t.Errorf("repair of a whole database changed it: %+v", report)
		}
		check()
	}
	ro := open(t, dir, &lsm.Options{ReadOnly: true})
	want(t, ro, 2000)
	must(t, ro.Close())
	for name := range listing(t, dir) {
		if _, ok := files[name]; !ok && len(name) > len("MANIFEST-000000") &&
			filepath.Dir(name) != "CURRENT" {
			t.Errorf("a file of the database has the number of a stray: %s", name)
		}
	}
	// A database that lost its MANIFEST is repaired from its other files.
	must(t, os.RemoveAll(filepath.Join(dir, "CURRENT")))
	if _, err := lsm.Repair(dir, nil); err != nil {
		t.Fatal(err)
	}
	reopened(t, dir, 2000)
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") || strings.HasPrefix(name, "0000002") {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
	}
	must(t, lsm.Destroy(dir, nil))
}

// The same log under two names is one log.
func TestLogUnderTwoNames(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, nil)
	must(t, fill(db, 0, 100))
	copied := filepath.Join(t.TempDir(), "copy") // as after kill -9
	copyDir(t, dir, copied)
	must(t, db.Close())
	logs, err := fstest.Find(vfs.Default, copied, base.FileLog)
	must(t, err)
	for _, log := range logs {
		b, err := os.ReadFile(log)
		must(t, err)
		short := strings.TrimLeft(filepath.Base(log), "0")
		must(t, os.WriteFile(filepath.Join(copied, short), b, 0o600))
		must(t, os.WriteFile(filepath.Join(copied, "0"+filepath.Base(log)), b, 0o600))
	}
	db = open(t, copied, nil)
	if r := db.RecoveryReport(); !r.WasClean || r.Logs != len(logs) || r.Entries != 100 {
		t.Errorf("%+v", r)
	}
	want(t, db, 100)
	must(t, db.Close())
}
