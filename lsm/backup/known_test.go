package backup_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
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
)

// openings is the operating system's file system, and what returns the names of the files of type t
// that were opened there since it was called last.
func openings(t base.FileType) (fsys vfs.FS, opened func() map[string]bool) {
	var mu sync.Mutex
	names := map[string]bool{}
	fsys = vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == vfs.OpOpen && fstest.TypeOf(op.Name) == t {
			names[filepath.Base(op.Name)] = true
		}
		return vfs.Outcome{}
	})
	return fsys, func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		defer clear(names)
		return maps.Clone(names)
	}
}

// TestUnchangedLogsAreNotRead: of the logs with entries that are in no table, the second backup
// reads only the ones written since.
func TestUnchangedLogsAreNotRead(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) {
		top := t.TempDir()
		fsys, opened := openings(base.FileLog)
		dir := filepath.Join(top, "db")
		o := small(fsys)
		o.WriteBufferSize = 1 << 20 // nothing is flushed
		db := mustOpen(t, dir, o)
		f := mustFolder(t, filepath.Join(top, "backups"), vfs.Default)
		entries := 0
		// logs writes so many entries and makes a backup. It returns which logs are read.
		logs := func(more int) (read map[string]bool, newBytes uint64) {
			t.Helper()
			fill(t, db, entries, entries+more)
			entries += more
			opened()
			info := mustCreate(t, f, db)
			read = opened()
			must(t, f.Verify(ctx, info.ID, nil))
			to := filepath.Join(top, "copy")
			must(t, f.Restore(ctx, info.ID, to, nil))
			has(t, to, vfs.Default, entries)
			must(t, os.RemoveAll(to))
			return read, info.NewBytes
		}
		const some = 2000 // a log of them is longer than the part that is copied without a rotation
		first, _ := logs(some)
		if len(first) == 0 {
			t.Fatal("no log is read")
		}
		if names, n := logs(0); len(names) > 1 || n > 5000 {
			t.Errorf("nothing was written, and %v are read; %d bytes are new", names, n)
		}
		second, _ := logs(some)
		if len(second) > 2 {
			t.Errorf("%v are read", second)
		}
		if names, _ := logs(0); len(names) > 1 {
			t.Errorf("nothing was written, and %v are read", names)
		}
		old := time.Unix(1e9, 0)
		for name := range first {
			must(t, os.Chtimes(filepath.Join(dir, name), old, old))
		}
		names, _ := logs(0)
		for name := range first {
			if !names[name] {
				t.Errorf("%s has another time, and is not read", name)
			}
		}
		must(t, f.Close())
		must(t, db.Close())
	})
}

// TestSameSize: a table that has the size of one that the folder has, but another checksum, is read
// once; one that has both is read, and not written.
func TestSameSize(t *testing.T) {
	mem := vfs.NewMem()
	var read, written atomic.Int64
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		switch {
		case op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".loam"):
			read.Add(op.N)
		case op.Kind == vfs.OpWrite && strings.Contains(op.Name, "data"):
			written.Add(op.N)
		}
		return vfs.Outcome{}
	})
	f := mustFolder(t, "backups", fsys)
	sizes := map[int64]bool{}
	for i, name := range []string{"one", "another", "copy of one"} {
		o := small(fsys)
		o.Compression, o.Format = lsm.NoCompression, lsm.FormatNative
		db := mustOpen(t, name, o)
		for n := range 500 {
			v := byte(n * (1 + i%2*2))
			must(t, db.Put(key(n), bytes.Repeat([]byte{v}, 64), lsm.NoSync))
		}
		must(t, db.Flush())
		size := int64(0)
		for file, b := range tree(t, mem, name) {
			if strings.HasSuffix(file, ".loam") {
				size += int64(len(b))
			}
		}
		sizes[size] = true
		read.Store(0)
		written.Store(0)
		mustCreate(t, f, db)
		if r, w := read.Load(), written.Load(); r != size || (w > size) != (i < 2) {
			t.Errorf("%s: of %d bytes %d are read; %d are written in all", name, size, r, w)
		}
		must(t, db.Close())
	}
	if len(sizes) != 1 || sizes[0] {
		t.Errorf("the tables have the sizes %v", sizes)
	}
	must(t, f.Close())
}

// TestDamageIsNotShared: contents that Verify or Restore found damaged are written anew by the next
// backup, also after another opening of the folder, and the older backups are whole again.
func TestDamageIsNotShared(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) {
		for _, how := range []string{"verify", "restore", "reopened"} {
			t.Run(how, func(t *testing.T) {
				top := t.TempDir()
				db := mustOpen(t, filepath.Join(top, "db"), small(vfs.Default))
				fill(t, db, 0, 3000)
				must(t, db.Flush())
				place := filepath.Join(top, "backups")
				f := mustFolder(t, place, vfs.Default)
				first := mustCreate(t, f, db)
				largest := largestObject(t, place)
				whole, err := os.ReadFile(largest)
				must(t, err)
				damaged := bytes.Clone(whole)
				damaged[len(damaged)/2] ^= 1
				must(t, os.WriteFile(largest, damaged, 0o600))

				if how == "restore" {
					err = f.Restore(t.Context(), first.ID, filepath.Join(top, "restored"), nil)
				} else {
					err = f.Verify(t.Context(), first.ID, nil)
				}
				if !errors.Is(err, lsm.ErrCorruption) {
					t.Fatalf("the damage is not told: %v", err)
				}
				if how == "reopened" {
					must(t, f.Close())
					f = mustFolder(t, place, vfs.Default)
				}
				second := mustCreate(t, f, db)
				if again, err := os.ReadFile(largest); err != nil || !bytes.Equal(again, whole) {
					t.Errorf("%s is not written anew: %v", filepath.Base(largest), err)
				}
				must(t, f.Verify(t.Context(), first.ID, nil))
				must(t, f.Verify(t.Context(), second.ID, nil))
				must(t, f.Restore(t.Context(), second.ID, filepath.Join(top, "second"), nil))
				has(t, filepath.Join(top, "second"), vfs.Default, 3000)
				if third := mustCreate(t, f, db); third.NewBytes > uint64(len(whole)/2) {
					t.Errorf("the third backup writes %d bytes again", third.NewBytes)
				}
				must(t, f.Keep(0))
				if left, err := os.ReadDir(filepath.Join(place, "data")); err != nil ||
					len(left) > 0 {
					t.Errorf("left are %v, %v", left, err)
				}
				must(t, f.Close())
				must(t, db.Close())
			})
		}
	})
}

// TestUnreadableIsNotShared: contents that the disk cannot read are written anew by the next
// backup. After another error of a read they are shared.
func TestUnreadableIsNotShared(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.EIO, syscall.ESTALE} {
		mem := vfs.NewMem()
		var bad atomic.Value // the name of an object with a sector that cannot be read
		bad.Store("")
		fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if op.Kind == vfs.OpRead && op.Name == bad.Load() {
				out.Err = cause
			}
			return out
		})
		db := mustOpen(t, "db", small(mem))
		fill(t, db, 0, 3000)
		must(t, db.Flush())
		f := mustFolder(t, "backups", fsys)
		first := mustCreate(t, f, db)
		size := 0
		for name, b := range tree(t, mem, "backups/data") {
			if len(b) > size {
				size = len(b)
				bad.Store(filepath.Join("backups/data", name))
			}
		}
		if err := f.Verify(ctx, first.ID, nil); !errors.Is(err, cause) {
			t.Fatal(err)
		}
		bad.Store("")
		second := mustCreate(t, f, db)
		if anew := second.NewBytes >= uint64(size); anew != (cause == syscall.EIO) {
			t.Errorf("%v: %d bytes are new, of %d", cause, second.NewBytes, size)
		}
		must(t, f.Close())
		must(t, db.Close())
	}
}

// largestObject is the path of the largest file in a folder of backups.
func largestObject(t *testing.T, folder string) (path string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "data", "*"))
	must(t, err)
	size := int64(0)
	for _, name := range names {
		info, err := os.Stat(name)
		must(t, err)
		if info.Size() > size {
			path, size = name, info.Size()
		}
	}
	return path
}
