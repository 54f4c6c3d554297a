package backup_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	inner "github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// viewed opens the database of a view.
func viewed(t *testing.T, v *inner.View) *lsm.DB {
	t.Helper()
	return mustOpen(t, v.Dir, &lsm.Options{FS: v, ReadOnly: true, ErrorIfMissing: true})
}

// TestView: a view of a backup shows what a restored one has, changes nothing, and keeps the backup
// when it is deleted.
func TestView(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		t.Run(format.String(), func(t *testing.T) {
			root := t.TempDir()
			o := small(vfs.Default)
			o.Format = format
			db := mustOpen(t, filepath.Join(root, "db"), o)
			fill(t, db, 0, 3000)
			if format == lsm.FormatNative {
				other, err := db.Keyspace("other", nil)
				must(t, err)
				must(t, other.Put([]byte("k"), []byte("v"), lsm.NoSync))
			}
			dir := filepath.Join(root, "backups")
			made := mustFolder(t, dir, vfs.Default)
			mustCreate(t, made, db)
			want := dump(t, db)
			fill(t, db, 3000, 5000) // not in the backup
			must(t, db.Close())
			must(t, made.Close())
			before := tree(t, vfs.Default, dir)

			readers := make([]*inner.Folder, 2) // which share the folder
			for i := range readers {
				f, err := inner.Open(dir, inner.Options{FS: vfs.Default, ReadOnly: true})
				must(t, err)
				v, err := f.View(1)
				must(t, err)
				seen := viewed(t, v)
				if got := dump(t, seen); !maps.Equal(got, want) {
					t.Errorf("%d entries, want %d", len(got), len(want))
				}
				must(t, seen.Verify(ctx, nil))
				if err := seen.Put([]byte("a"), nil, lsm.NoSync); !errors.Is(err, lsm.ErrReadOnly) {
					t.Errorf("Put: %v", err)
				}
				must(t, seen.Close())
				if _, err := f.View(2); !errors.Is(err, lsm.ErrDoesNotExist) {
					t.Errorf("backup 2: %v", err)
				}
				must(t, v.Close())
				readers[i] = f
			}
			for _, f := range readers {
				must(t, f.Close())
			}
			wantTree(t, before, tree(t, vfs.Default, dir))

			f, err := inner.Open(dir, inner.Options{FS: vfs.Default})
			must(t, err)
			v, err := f.View(1)
			must(t, err)
			must(t, f.Delete(1))
			seen := viewed(t, v)
			if got := dump(t, seen); !maps.Equal(got, want) {
				t.Errorf("%d entries of a deleted backup, want %d", len(got), len(want))
			}
			must(t, seen.Close())
			must(t, v.Close())
			objects, err := os.ReadDir(filepath.Join(dir, "data"))
			if err != nil || len(objects) > 0 {
				t.Errorf("left of a deleted backup: %v, %v", objects, err)
			}
			must(t, f.Close())
		})
	}
}

// TestViewRefuses: a view takes no change, and has no other names.
func TestViewRefuses(t *testing.T) {
	root := t.TempDir()
	db := mustOpen(t, filepath.Join(root, "db"), nil)
	dir := filepath.Join(root, "backups")
	made := mustFolder(t, dir, vfs.Default)
	mustCreate(t, made, db)
	must(t, errors.Join(db.Close(), made.Close()))
	f, err := inner.Open(dir, inner.Options{FS: vfs.Default, ReadOnly: true})
	must(t, err)
	v, err := f.View(1)
	must(t, err)
	name := filepath.Join(v.Dir, "new")
	for call, try := range map[string]func() error{
		"Create":    func() error { _, err := v.Create(name); return err },
		"CreateLog": func() error { _, err := v.CreateLog(name, 0); return err },
		"Remove":    func() error { return v.Remove(filepath.Join(v.Dir, base.CurrentName)) },
		"Rename":    func() error { return v.Rename(v.Dir, name) },
		"MkdirAll":  func() error { return v.MkdirAll(name) },
		"SyncDir":   func() error { return v.SyncDir(v.Dir) },
		"Lock":      func() error { _, err := v.Lock(name); return err },
	} {
		if err := try(); !errors.Is(err, lsm.ErrReadOnly) {
			t.Errorf("%s: %v", call, err)
		}
	}
	for _, other := range []string{name, dir, filepath.Join(v.Dir, "..", "BACKUPS"), ""} {
		_, opened := v.Open(other)
		_, stat := v.Stat(other)
		_, listed := v.List(other)
		for _, err := range []error{opened, stat, listed} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %v", other, err)
			}
		}
	}
	if info, err := v.Stat(filepath.Join(v.Dir, base.CurrentName)); err != nil || !info.IsDir() ||
		info.Name() != base.CurrentName {
		t.Errorf("%v, %v", info, err)
	}
	must(t, errors.Join(v.Close(), f.Close()))
	if err := v.Close(); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("Close after the folder's: %v", err)
	}
}

// TestViewOfDamage: a cut or missing file of a backup is an error of what reads it, and so is a
// flipped byte, save in LevelDB's logs, of which a recovery drops what is damaged.
func TestViewOfDamage(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		root := t.TempDir()
		o := small(vfs.Default)
		o.Format = format
		db := mustOpen(t, filepath.Join(root, "db"), o)
		fill(t, db, 0, 2000)
		must(t, db.Flush())
		fill(t, db, 2000, 2010)
		dir := filepath.Join(root, "backups")
		made := mustFolder(t, dir, vfs.Default)
		mustCreate(t, made, db)
		must(t, errors.Join(db.Close(), made.Close()))
		objects, err := filepath.Glob(filepath.Join(dir, "data", "*"))
		must(t, err)
		damages := map[string]func(b []byte) []byte{
			"cut":     func(b []byte) []byte { return b[:len(b)-1] },
			"missing": func([]byte) []byte { return nil },
		}
		if format == lsm.FormatNative {
			damages["flipped"] = func(b []byte) []byte { b[len(b)/3] ^= 1; return b }
		}
		for name, damage := range damages {
			for _, path := range objects {
				whole, err := os.ReadFile(path)
				must(t, err)
				if len(whole) == 0 {
					continue
				}
				must(t, os.Remove(path))
				if b := damage(slices.Clone(whole)); b != nil {
					must(t, os.WriteFile(path, b, 0o600))
				}
				if err := readView(dir); err == nil {
					t.Errorf("%v: %s %s: no error", format, name, filepath.Base(path))
				}
				must(t, os.WriteFile(path, whole, 0o600))
			}
		}
		must(t, readView(dir))
	}
}

// readView reads all of backup 1 by a view.
func readView(dir string) (err error) {
	f, err := inner.Open(dir, inner.Options{FS: vfs.Default, ReadOnly: true})
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := f.View(1)
	if err != nil {
		return err
	}
	defer v.Close()
	db, err := lsm.Open(v.Dir, &lsm.Options{FS: v, ReadOnly: true, ErrorIfMissing: true})
	if err != nil {
		return err
	}
	for range db.All(nil, nil, &err) {
	}
	return errors.Join(err, db.Verify(ctx, nil), db.Close())
}
