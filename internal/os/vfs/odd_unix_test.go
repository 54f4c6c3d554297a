//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// TestCannotSyncDirs: file systems that sync no directories have several ways to say so.
func TestCannotSyncDirs(t *testing.T) {
	for _, err := range []error{unix.EINVAL, unix.ENOTSUP, unix.ENOSYS, unix.EBADF} {
		if !cannotSyncDirs(err) {
			t.Errorf("%v is an error", err)
		}
	}
	for _, err := range []error{nil, unix.EIO, unix.ENOSPC, unix.EROFS, unix.ESTALE} {
		if cannotSyncDirs(err) {
			t.Errorf("%v is none", err)
		}
	}
}

// TestNumbersOfFilesThatTellNothing: directories are locked and changed on file systems whose files
// have other numbers each time, or have had others until they were locked, or have one number.
func TestNumbersOfFilesThatTellNothing(t *testing.T) {
	usual := filelock.IDOf
	defer func() { filelock.IDOf = usual }()
	epoch := uint64(0)
	for name, number := range map[string]func(st *unix.Stat_t) filelock.ID{
		"random": func(*unix.Stat_t) filelock.ID { return filelock.ID{Dev: 1, Ino: rand.Uint64()} },
		"later": func(st *unix.Stat_t) filelock.ID {
			return filelock.ID{Dev: epoch, Ino: uint64(st.Ino)}
		},
		"same": func(*unix.Stat_t) filelock.ID { return filelock.ID{Dev: 1, Ino: 7} },
		"zero": func(*unix.Stat_t) filelock.ID { return filelock.ID{} },
	} {
		t.Run(name, func(t *testing.T) {
			filelock.IDOf = number
			top := t.TempDir()
			open := func(elem string) (*Dir, error) {
				return OpenDir(Default, filepath.Join(top, elem), DirOptions{Create: true})
			}
			a, err := open("a")
			must(t, err)
			b, err := open("b")
			must(t, err)
			epoch++
			if _, err := open("a"); !errors.Is(err, base.ErrLocked) {
				t.Errorf("the second lock: %v", err)
			}
			for _, d := range []*Dir{a, b, a} {
				w, err := d.Create(filepath.Join(d.Path, "w"))
				must(t, err)
				l, err := d.CreateLog(filepath.Join(d.Path, "l"), 0)
				must(t, err)
				epoch++
				appendTo(t, l, "x")
				must(t, d.MkdirAll(filepath.Join(d.Path, "sub")))
				must(t, d.Rename(filepath.Join(d.Path, "w"), filepath.Join(d.Path, "v")))
				must(t, errors.Join(w.Sync(), l.Sync(), w.Close(), l.Close()))
				for _, elem := range []string{"v", "l", "sub"} {
					must(t, d.Remove(filepath.Join(d.Path, elem)))
				}
			}
			must(t, a.Close())
			if a, err = open("a"); err != nil {
				t.Fatal("again: ", err)
			}
			must(t, errors.Join(a.Close(), b.Close()))
		})
	}
	if len(held.files) > 0 {
		t.Errorf("%d files are locked still", len(held.files))
	}
}

// TestReuseNeedsCounts: a log is not reused where the file system may keep to itself that it has
// two names.
func TestReuseNeedsCounts(t *testing.T) {
	usual := filelock.CountsLinks
	defer func() { filelock.CountsLinks = usual }()
	filelock.CountsLinks = func(int) bool { return false }
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	writeFile(t, Default, a, "former")
	if _, _, err := ReuseLog(Default, a, b, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if got := readFile(t, Default, a); got != "former" {
		t.Errorf("%q is left", got)
	}
}

// TestInterruptedClose: a file whose close a signal interrupts is closed.
func TestInterruptedClose(t *testing.T) {
	interrupted := &fs.PathError{Op: "close", Path: "000001.log", Err: unix.EINTR}
	if err := closeError(interrupted); err != nil {
		t.Error(err)
	}
	for _, err := range []error{nil, unix.EIO} {
		if got := closeError(err); got != err {
			t.Errorf("%v, not %v", got, err)
		}
	}
}
