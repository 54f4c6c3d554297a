package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

var ctx = context.Background()

// small options make flushes and compactions happen with little data.
func small(fsys vfs.FS) *lsm.Options {
	return &lsm.Options{FS: fsys, WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
		CacheSize: 1 << 20, WALPreallocate: -1}
}

func mustOpen(t testing.TB, dir string, o *lsm.Options) *lsm.DB {
	t.Helper()
	db, err := lsm.Open(dir, o)
	must(t, err)
	return db
}

func mustFolder(t testing.TB, dir string, fsys vfs.FS) *backup.Folder {
	t.Helper()
	f, err := backup.Open(dir, &backup.Options{FS: fsys})
	must(t, err)
	return f
}

func mustCreate(t testing.TB, f *backup.Folder, db *lsm.DB) backup.Info {
	t.Helper()
	info, err := f.Create(ctx, db, nil)
	must(t, err)
	return info
}

// wantBackups wants so many whole backups in a folder.
func wantBackups(t testing.TB, f *backup.Folder, n int) []backup.Info {
	t.Helper()
	list, err := f.List()
	must(t, err)
	if len(list) != n {
		t.Fatalf("%d backups, want %d: %+v", len(list), n, list)
	}
	for _, info := range list {
		must(t, f.Verify(ctx, info.ID, nil))
	}
	return list
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(i int) []byte   { return fmt.Appendf(nil, "key%08d", i) }
func value(i int) []byte { return fmt.Appendf(nil, "value-%d-%s", i, strings.Repeat("x", i%97)) }

// fill puts keys from up to, not including, to.
func fill(t testing.TB, db *lsm.DB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, db.Put(key(i), value(i), lsm.NoSync))
	}
}

// has wants keys 0 to n-1 and no other in a database.
func has(t testing.TB, dir string, fsys vfs.FS, n int) {
	t.Helper()
	db := mustOpen(t, dir, &lsm.Options{FS: fsys, ErrorIfMissing: true})
	defer db.Close()
	if r := db.RecoveryReport(); !r.WasClean {
		t.Errorf("%s: recovery: %+v", dir, r)
	}
	i := 0
	var err error
	for k, v := range db.All(nil, nil, &err) {
		if !bytes.Equal(k, key(i)) || !bytes.Equal(v, value(i)) {
			t.Fatalf("%s: entry %d is %q", dir, i, k)
		}
		i++
	}
	must(t, err)
	if i != n {
		t.Fatalf("%s has %d entries, want %d", dir, i, n)
	}
	must(t, db.Verify(ctx, nil))
}

// dump lists what a database has, keyspaces too.
func dump(t testing.TB, db *lsm.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range db.Keyspaces() {
		ks, err := db.Keyspace(name, nil)
		must(t, err)
		for k, v := range ks.All(nil, nil, &err) {
			all[name+"/"+string(k)] = string(v)
		}
		must(t, err)
	}
	return all
}

func tree(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	files, err := fstest.Tree(fsys, dir)
	must(t, err)
	return files
}

func wantTree(t testing.TB, before, after map[string][]byte) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if b, ok := after[name]; !ok || !bytes.Equal(b, before[name]) {
			t.Errorf("%s changed, or is gone", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s is new", name)
		}
	}
}

// TestBackups: three backups, the second and third of what changed; each restores its state, also
// when the others are gone.
func TestBackups(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) {
		for _, on := range []string{"memory", "disk"} {
			t.Run(on, func(t *testing.T) {
				top, fsys := "top", vfs.FS(vfs.NewMem())
				if on == "disk" {
					top, fsys = t.TempDir(), vfs.Default
				}
				must(t, fsys.MkdirAll(top))
				testBackups(t, fsys, func(name string) string { return filepath.Join(top, name) })
			})
		}
	})
}

func testBackups(t *testing.T, fsys vfs.FS, in func(name string) string) {
	db := mustOpen(t, in("db"), small(fsys))
	f := mustFolder(t, in("backups"), fsys)
	fill(t, db, 0, 3000)
	must(t, db.CompactRange(nil, nil))
	first := mustCreate(t, f, db)
	fill(t, db, 3000, 3100)
	second := mustCreate(t, f, db)
	must(t, db.Flush())
	third := mustCreate(t, f, db)
	if first.ID != 1 || second.ID != 2 || third.ID != 3 || first.NewBytes != first.Bytes ||
		second.NewBytes*4 > second.Bytes || third.NewBytes*4 > third.Bytes ||
		second.Bytes <= first.Bytes {
		t.Errorf("%+v\n%+v\n%+v", first, second, third)
	}
	m := db.Metrics().Backups
	if m.Count != 3 || m.Failed != 0 || m.TablesLinked < 2 || m.TablesCopied == 0 ||
		m.BytesCopied != first.NewBytes+second.NewBytes+third.NewBytes || m.Duration <= 0 {
		t.Errorf("%+v", m)
	}
	list, err := f.List()
	must(t, err)
	if len(list) != 3 || list[0] != first || list[2] != third || list[1].Database != in("db") ||
		list[1].Err != nil || time.Since(list[1].Created).Abs() > time.Hour {
		t.Errorf("%+v", list)
	}
	for id := range uint64(3) {
		must(t, f.Verify(ctx, id+1, nil))
	}
	must(t, f.Restore(ctx, 1, in("one"), nil))
	has(t, in("one"), fsys, 3000)
	must(t, f.Delete(1))
	must(t, f.Restore(ctx, 2, in("two"), nil))
	has(t, in("two"), fsys, 3100)
	must(t, f.Keep(1))
	must(t, f.Verify(ctx, 3, nil))
	if err := f.Verify(ctx, 2, nil); !errors.Is(err, lsm.ErrDoesNotExist) ||
		err.Error() != "verifying backup 2: there is no backup 2" {
		t.Error(err)
	}
	must(t, f.Close())
	must(t, db.Close())

	f = mustFolder(t, in("backups"), fsys)
	must(t, f.Restore(ctx, 3, in("three"), nil))
	has(t, in("three"), fsys, 3100)
	must(t, f.Delete(3))
	left := slices.Collect(maps.Keys(tree(t, fsys, in("backups"))))
	slices.Sort(left)
	if want := []string{"000003.deleted", "BACKUPS", "LOCK"}; !slices.Equal(left, want) {
		t.Errorf("of no backups is left: %q", left)
	}
	must(t, f.Close())
	f = mustFolder(t, in("backups"), fsys)
	db = mustOpen(t, in("three"), small(fsys))
	if info := mustCreate(t, f, db); info.ID != 4 {
		t.Errorf("a number is given out twice: %+v", info)
	}
	must(t, f.Close())
	must(t, db.Close())
}

// TestBesideWrites makes backups of keyspaces that are written together, flushed and compacted:
// each has a prefix of the batches, whole in all keyspaces.
func TestBesideWrites(t *testing.T) {
	fsys := vfs.NewMem()
	o := small(fsys)
	o.Format = lsm.FormatNative
	db := mustOpen(t, "db", o)
	f := mustFolder(t, "backups", fsys)
	ks, err := db.Keyspace("ks", nil)
	must(t, err)
	var acked, begun atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(do func(i int) error) {
		wg.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				err := do(i)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work(func(i int) error {
		begun.Store(int64(i))
		b := lsm.NewBatch()
		b.Put([]byte("last"), []byte(strconv.Itoa(i)))
		b.In(ks).Put([]byte("last"), []byte(strconv.Itoa(i)))
		b.In(ks).Put(key(i%500), value(i))
		defer acked.Store(int64(i))
		return db.Write(b, lsm.NoSync)
	})
	work(func(i int) error {
		if i%2 == 0 {
			return ks.Flush()
		}
		return db.CompactRange(nil, nil)
	})
	for range 30 {
		lo := acked.Load()
		info, err := f.Create(ctx, db, nil)
		must(t, err)
		hi := begun.Load()
		to := fmt.Sprintf("copy%d", info.ID)
		must(t, f.Restore(ctx, info.ID, to, nil))
		c := mustOpen(t, to, &lsm.Options{FS: fsys, ErrorIfMissing: true})
		copied, err := c.Keyspace("ks", nil)
		must(t, err)
		v, err := c.Get([]byte("last"), nil)
		w, err2 := copied.Get([]byte("last"), nil)
		n, _ := strconv.ParseInt(string(v), 10, 64)
		if lo > 0 && errors.Join(err, err2) != nil || !bytes.Equal(v, w) || n < lo || n > hi {
			t.Fatalf("backup %d: %q, %q, %v; between %d and %d", info.ID, v, w,
				errors.Join(err, err2), lo, hi)
		}
		for i := max(1, n-499); i <= n; i++ {
			if v, err := copied.Get(key(int(i%500)), nil); err != nil ||
				!bytes.Equal(v, value(int(i))) {
				t.Fatalf("backup %d of %d batches: batch %d: %.30q, %v", info.ID, n, i, v, err)
			}
		}
		must(t, c.Close())
		must(t, f.Keep(3))
	}
	close(stop)
	wg.Wait()
	must(t, f.Close())
	must(t, db.Close())
}

// TestSeveralDatabases have the same file numbers and one folder.
func TestSeveralDatabases(t *testing.T) {
	fsys := vfs.NewMem()
	f := mustFolder(t, "backups", fsys)
	var dbs []*lsm.DB
	for i, format := range []lsm.Format{lsm.FormatNative, lsm.FormatNative, lsm.FormatLevelDB} {
		o := small(fsys)
		o.Format = format
		db := mustOpen(t, fmt.Sprintf("db%d", i), o)
		fill(t, db, 0, 1000+i)
		must(t, db.CompactRange(nil, nil))
		dbs = append(dbs, db)
	}
	var wg sync.WaitGroup
	for range 3 {
		for _, db := range dbs {
			wg.Go(func() {
				if _, err := f.Create(ctx, db, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	must(t, f.Keep(1))
	for _, info := range wantBackups(t, f, 3) {
		to := fmt.Sprint("copy", info.ID)
		must(t, f.Restore(ctx, info.ID, to, nil))
		n, err := strconv.Atoi(strings.TrimPrefix(info.Database, "db"))
		must(t, err)
		has(t, to, fsys, 1000+n)
		if want := map[bool]string{true: "leveldb", false: "native"}[n == 2]; info.Format != want {
			t.Errorf("%+v", info)
		}
	}
	must(t, f.Close())
	for _, db := range dbs {
		must(t, db.Close())
	}
}

// TestUnchangedTablesAreNotRead: the second backup opens no table that the first one read, but for
// those that look different.
func TestUnchangedTablesAreNotRead(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) {
		top := t.TempDir()
		fsys, opened := openings(base.FileTable)
		dir := filepath.Join(top, "db")
		o := small(fsys)
		db := mustOpen(t, dir, o)
		fill(t, db, 0, 4000)
		must(t, db.CompactRange(nil, nil))
		must(t, db.Close())
		o.DisableCompaction = true
		db = mustOpen(t, dir, o)
		f := mustFolder(t, filepath.Join(top, "backups"), vfs.Default)
		tables := func() int {
			info := mustCreate(t, f, db)
			must(t, f.Verify(ctx, info.ID, nil))
			return len(opened())
		}
		opened()
		all := tables()
		if all == 0 {
			t.Fatal("there are no tables")
		}
		if n := tables(); n != 0 {
			t.Errorf("the second backup reads %d tables of %d", n, all)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.l[od]*"))
		must(t, err)
		names = slices.DeleteFunc(names, func(n string) bool {
			return strings.HasSuffix(n, ".log")
		})
		newest := names[len(names)-1] // older ones may wait to be deleted
		b, err := os.ReadFile(newest)
		must(t, err)
		must(t, os.WriteFile(newest+".new", b, 0o600))
		must(t, os.Rename(newest+".new", newest)) // another inode
		if n := tables(); n != 1 {
			t.Errorf("after one table was replaced %d are read", n)
		}
		old := time.Unix(1e9, 0)
		must(t, os.Chtimes(newest, old, old))
		if n := tables(); n != 1 {
			t.Errorf("after one table's time was set %d are read", n)
		}
		// A table that lost its object is copied again.
		objects, err := filepath.Glob(filepath.Join(top, "backups/data/*"))
		must(t, err)
		for _, name := range objects {
			must(t, os.Truncate(name, 1))
		}
		if n := tables(); n != all {
			t.Errorf("%d of %d tables are copied again", n, all)
		}
		// mended by the last one, but for logs
		must(t, f.Restore(ctx, 1, filepath.Join(top, "copy"), nil))
		must(t, f.Close())
		must(t, db.Close())
	})
}

// TestDamagedTable: a table that is not what the MANIFEST says is named, and no backup is made of
// it.
func TestDamagedTable(t *testing.T) {
	fsys := vfs.NewMem()
	o := small(fsys)
	o.Format = lsm.FormatNative
	db := mustOpen(t, "db", o)
	fill(t, db, 0, 2000)
	must(t, db.CompactRange(nil, nil))
	f := mustFolder(t, "backups", fsys)
	var tables []string
	for name := range tree(t, fsys, "db") {
		if strings.HasSuffix(name, ".loam") {
			tables = append(tables, name)
		}
	}
	newest := slices.Max(tables) // older ones may wait to be deleted
	for range 2 {                // the second time an object may have its size
		must(t, fstest.Flip(fsys, "db/"+newest, 77))
		_, err := f.Create(ctx, db, nil)
		var damage *lsm.CorruptionError
		if !errors.As(err, &damage) || damage.File != newest {
			t.Fatal(err)
		}
		must(t, fstest.Flip(fsys, "db/"+newest, 77))
		mustCreate(t, f, db)
		must(t, f.Verify(ctx, 1, nil))
	}
	must(t, db.Close())
	must(t, f.Close())
}

// TestReadOnly: a database and a folder that are only read.
func TestReadOnly(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) {
		fsys := vfs.NewMem()
		db := mustOpen(t, "db", small(fsys))
		fill(t, db, 0, 500)
		fsys = fsys.CrashClone(vfs.KeepAll())
		must(t, db.Close())
		o := small(fsys)
		o.ReadOnly = true
		db = mustOpen(t, "db", o)
		before := tree(t, fsys, "db")
		f := mustFolder(t, "backups", fsys)
		mustCreate(t, f, db)
		wantTree(t, before, tree(t, fsys, "db"))
		must(t, f.Close())

		before = tree(t, fsys, "backups")
		ro, err := backup.Open("backups", &backup.Options{FS: fsys, ReadOnly: true})
		must(t, err)
		ro2, err := backup.Open("backups", &backup.Options{FS: fsys, ReadOnly: true})
		must(t, err)
		if _, err := backup.Open("backups", &backup.Options{FS: fsys}); !errors.Is(err,
			lsm.ErrLocked) {
			t.Error(err)
		}
		for _, err := range []error{ro.Delete(1), ro.Keep(0), second(ro.Create(ctx, db, nil))} {
			if !errors.Is(err, lsm.ErrReadOnly) {
				t.Error(err)
			}
		}
		must(t, ro.Verify(ctx, 1, nil))
		must(t, ro2.Restore(ctx, 1, "copy", nil))
		must(t, ro.Close())
		must(t, ro2.Close())
		wantTree(t, before, tree(t, fsys, "backups"))
		has(t, "copy", fsys, 500)
		must(t, db.Close())
	})
}

func second[T any](_ T, err error) error { return err }

// TestLocked: one opening at a time.
func TestLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	f := mustFolder(t, dir, nil)
	if _, err := backup.Open(dir, nil); !errors.Is(err, lsm.ErrLocked) ||
		!strings.Contains(err.Error(), "are open elsewhere") {
		t.Error(err)
	}
	must(t, f.Close())
	f = mustFolder(t, dir, nil)
	must(t, f.Close())
	if err := f.Close(); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
}

// TestRefused: a folder that is something else is refused and not changed.
func TestRefused(t *testing.T) {
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	db := mustOpen(t, in("db"), nil)
	defer db.Close()
	fill(t, db, 0, 10)
	for name, text := range map[string]string{
		"theirs/file": "precious", "file": "precious", "newer/BACKUPS": "loam backups 2\n",
		"damaged/BACKUPS": "loam backup\n", "empty/BACKUPS": "", "other/000001.backup": "",
		"linked/data": "",
	} {
		must(t, os.MkdirAll(filepath.Dir(in(name)), 0o700))
		must(t, os.WriteFile(in(name), []byte(text), 0o600))
	}
	must(t, os.Symlink(in("theirs"), in("linked/BACKUPS")))
	before := tree(t, vfs.Default, in("theirs"))
	for _, c := range []struct {
		dir  string
		want error
	}{
		{"theirs", lsm.ErrNotADatabase}, {"file", lsm.ErrNotADatabase}, {"db", lsm.ErrNotADatabase},
		{"newer", lsm.ErrNewerFormat}, {"other", lsm.ErrNotADatabase},
		{"damaged", lsm.ErrCorruption}, {"empty", lsm.ErrCorruption},
		{"none/backups", fs.ErrNotExist}, {"linked", vfs.ErrNotRegular},
		{"file/backups", syscall.ENOTDIR},
	} {
		_, err := backup.Open(in(c.dir), nil)
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.dir, err)
		}
		if _, err := os.Stat(filepath.Join(in(c.dir), "LOCK")); err == nil && c.dir != "db" {
			t.Errorf("%s has a LOCK", c.dir)
		}
	}
	wantTree(t, before, tree(t, vfs.Default, in("theirs")))
	for _, o := range []backup.Options{{ErrorIfMissing: true}, {ReadOnly: true}} {
		if _, err := backup.Open(in("missing"), &o); !errors.Is(err, lsm.ErrDoesNotExist) {
			t.Error(err)
		}
	}
	if _, err := os.Stat(in("missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := backup.Open("", nil); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	inside := mustFolder(t, in("db/backups"), nil)
	if _, err := inside.Create(ctx, db, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	must(t, inside.Close())
}

// TestStrangers: files in the folder that are not its own are kept.
func TestStrangers(t *testing.T) {
	fsys := vfs.NewMem()
	db := mustOpen(t, "db", small(fsys))
	fill(t, db, 0, 100)
	f := mustFolder(t, "backups", fsys)
	mustCreate(t, f, db)
	theirs := []string{"backups/README", "backups/1.backup", "backups/0000001.tmp",
		"backups/data/notes", "backups/data/1.tmp",
		"backups/data/" + strings.Repeat("0", 64) + "-01", "backups/data/" +
			strings.Repeat("A", 64) + "-1", "backups/000001.backup.bak"}
	for _, name := range theirs {
		must(t, fstest.WriteFile(fsys, name, []byte("theirs")))
	}
	must(t, f.Close())
	f = mustFolder(t, "backups", fsys)
	mustCreate(t, f, db)
	must(t, f.Keep(0))
	must(t, f.Close())
	for _, name := range theirs {
		if b, err := fstest.ReadFile(fsys, name); err != nil || string(b) != "theirs" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	must(t, db.Close())
}

// TestDamage flips every byte of a folder, and cuts its files everywhere: Verify and Restore tell,
// or the database is restored as it was.
func TestDamage(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) {
		fsys := vfs.NewMem()
		o := small(fsys)
		o.BloomBits = -1
		db := mustOpen(t, "db", o)
		fill(t, db, 0, 8)
		must(t, db.Flush())
		fill(t, db, 8, 10)
		want := dump(t, db)
		f := mustFolder(t, "backups", fsys)
		mustCreate(t, f, db)
		must(t, f.Close())
		must(t, db.Close())
		files := tree(t, fsys, "backups")
		tried, told := 0, 0
		for _, name := range slices.Sorted(maps.Keys(files)) {
			for at := range len(files[name]) {
				for _, cut := range []bool{false, true} {
					if testing.Short() && at%7 != 0 {
						continue
					}
					damaged := fsys.Clone()
					b := bytes.Clone(files[name])
					if b[at] ^= 1 << (at % 8); cut {
						b = b[:at]
					}
					must(t, damaged.Remove("backups/"+name))
					must(t, fstest.WriteFile(damaged, "backups/"+name, b))
					tried++
					if restoreDamaged(t, damaged, fmt.Sprintf("%s at %d, cut %v", name, at, cut),
						want) {
						told++
					}
				}
			}
		}
		t.Logf("%d damages, %d told", tried, told)
		if told != tried {
			t.Errorf("%d damages were not told", tried-told)
		}
	})
}

// restoreDamaged wants a damage to be told by List or Verify and by Restore. It reports whether it
// was.
func restoreDamaged(t *testing.T, fsys *vfs.Mem, what string, want map[string]string) bool {
	t.Helper()
	before := tree(t, fsys, "backups")
	f, err := backup.Open("backups", &backup.Options{FS: fsys})
	if err != nil {
		if !errors.Is(err, lsm.ErrCorruption) && !errors.Is(err, lsm.ErrNewerFormat) {
			t.Errorf("%s: opening: %v", what, err)
		}
		return true
	}
	defer f.Close()
	list, err := f.List()
	if err != nil || len(list) != 1 {
		t.Errorf("%s: %+v, %v", what, list, err)
		return false
	}
	var damage *lsm.CorruptionError
	verr := f.Verify(ctx, 1, nil)
	rerr := f.Restore(ctx, 1, "copy", nil)
	if verr != nil && (!errors.As(verr, &damage) || before[damage.File] == nil) {
		t.Errorf("%s: Verify: %v", what, verr)
	}
	_, copied := fsys.Stat("copy")
	if rerr != nil && (!errors.Is(rerr, lsm.ErrCorruption) || copied == nil) ||
		(rerr == nil) != (verr == nil) {
		t.Errorf("%s: Restore: %v; %v", what, rerr, verr)
	}
	after := tree(t, fsys, "backups")
	maps.DeleteFunc(after, func(name string, b []byte) bool {
		return strings.HasSuffix(name, ".damaged") && len(b) == 0
	})
	wantTree(t, before, after)
	if rerr == nil {
		db := mustOpen(t, "copy", &lsm.Options{FS: fsys, ErrorIfMissing: true})
		if got := dump(t, db); !maps.Equal(got, want) {
			t.Errorf("%s: %v is restored silently", what, got)
		}
		must(t, db.Close())
		return false
	}
	return true
}

// TestDamagedCatalog: a backup whose catalog cannot be read is listed so, keeps no other from being
// used, and what it may need stays until it is deleted.
func TestDamagedCatalog(t *testing.T) {
	fsys := vfs.NewMem()
	db := mustOpen(t, "db", small(fsys))
	f := mustFolder(t, "backups", fsys)
	for i := range 3 {
		fill(t, db, i*500, i*500+500)
		must(t, db.Flush())
		mustCreate(t, f, db)
	}
	must(t, f.Close())
	must(t, fstest.Flip(fsys, "backups/000002.backup", 20))
	f = mustFolder(t, "backups", fsys)
	list, err := f.List()
	must(t, err)
	if len(list) != 3 || list[0].Err != nil || list[2].Err != nil || list[1].ID != 2 ||
		!errors.Is(list[1].Err, lsm.ErrCorruption) {
		t.Fatalf("%+v", list)
	}
	for _, err := range []error{f.Verify(ctx, 2, nil), f.Restore(ctx, 2, "copy", nil)} {
		var damage *lsm.CorruptionError
		if !errors.As(err, &damage) || damage.File != "000002.backup" {
			t.Error(err)
		}
	}
	objects := len(tree(t, fsys, "backups/data"))
	must(t, f.Keep(1))
	if n := len(tree(t, fsys, "backups/data")); n != objects {
		t.Errorf("%d objects of %d are left beside a catalog that is damaged", n, objects)
	}
	must(t, f.Delete(2))
	if n := len(tree(t, fsys, "backups/data")); n >= objects {
		t.Errorf("%d objects of %d are left", n, objects)
	}
	must(t, f.Restore(ctx, 3, "copy", nil))
	has(t, "copy", fsys, 1500)
	must(t, f.Close())
	must(t, db.Close())
}

// TestRestoreRefused: a place that is taken, or bad.
func TestRestoreRefused(t *testing.T) {
	fsys := vfs.NewMem()
	db := mustOpen(t, "db", small(fsys))
	fill(t, db, 0, 10)
	f := mustFolder(t, "backups", fsys)
	mustCreate(t, f, db)
	must(t, fsys.MkdirAll("full"))
	must(t, fsys.MkdirAll("empty"))
	must(t, fstest.WriteFile(fsys, "full/theirs", nil))
	for dir, want := range map[string]error{
		"full": lsm.ErrExists, "db": lsm.ErrExists, "": lsm.ErrInvalidArgument,
		"backups/copy": lsm.ErrInvalidArgument, "backups": lsm.ErrInvalidArgument,
		"none/copy": fs.ErrNotExist,
	} {
		if err := f.Restore(ctx, 1, dir, nil); !errors.Is(err, want) {
			t.Errorf("in %q: %v", dir, err)
		}
	}
	if err := f.Restore(ctx, 7, "copy", nil); !errors.Is(err, lsm.ErrDoesNotExist) {
		t.Error(err)
	}
	must(t, f.Restore(ctx, 1, "empty", nil))
	has(t, "empty", fsys, 10)
	if err := f.Restore(ctx, 1, "empty", nil); !errors.Is(err, lsm.ErrExists) {
		t.Error(err)
	}
	must(t, f.Close())
	must(t, db.Close())
}
