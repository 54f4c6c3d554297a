//go:build unix

package fileid

import (
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// oddFS gives files other numbers than they have.
type oddFS struct {
	vfs.FS
	number func() uint64
}

type oddInfo struct {
	fs.FileInfo
	st syscall.Stat_t
}

func (i *oddInfo) Sys() any { return &i.st }

func (o oddFS) Stat(name string) (fs.FileInfo, error) {
	info, err := o.FS.Stat(name)
	if err != nil {
		return nil, err
	}
	odd := &oddInfo{FileInfo: info}
	odd.st.Ino = o.number()
	return odd, nil
}

// TestNumbersThatTellNothing: where all files have one number, or another one each time, a path
// lies in a directory by its name, and a file is the one that was made.
func TestNumbersThatTellNothing(t *testing.T) {
	for name, number := range map[string]func() uint64{
		"same":   func() uint64 { return 7 },
		"random": rand.Uint64,
	} {
		top := t.TempDir()
		fsys := oddFS{vfs.Default, number}
		db, beside := filepath.Join(top, "db"), filepath.Join(top, "beside")
		for _, dir := range []string{db, beside} {
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{beside, filepath.Join(beside, "x", "y")} {
			if _, err := Outside(fsys, path, db, "the database"); err != nil {
				t.Errorf("%s: %s: %v", name, path, err)
			}
		}
		if _, err := Outside(fsys, filepath.Join(db, "x"), db, "the database"); err == nil {
			t.Errorf("%s: a path in the database is not", name)
		}
		m := Track(fsys)
		w, err := m.Create(filepath.Join(db, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := m.Check(fsys, db); name == "random" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
