package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestLink(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		a, b, sub := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "sub")
		must(t, fsys.MkdirAll(sub))
		writeFile(t, fsys, a, "hello")
		must(t, Link(fsys, a, b))
		must(t, Link(fsys, b, filepath.Join(sub, "c")))
		must(t, fsys.SyncDir(dir))
		if err := Link(fsys, a, b); !errors.Is(err, fs.ErrExist) || errors.Is(err, ErrCannotLink) {
			t.Errorf("over a name that exists: %v", err)
		}
		if err := Link(fsys, filepath.Join(dir, "none"), filepath.Join(dir, "d")); !errors.Is(err,
			fs.ErrNotExist) {
			t.Errorf("of a missing file: %v", err)
		}
		if err := Link(fsys, a, filepath.Join(dir, "none", "d")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("into a missing directory: %v", err)
		}
		if err := Link(fsys, sub, filepath.Join(dir, "d")); !errors.Is(err, ErrNotRegular) {
			t.Errorf("of a directory: %v", err)
		}
		must(t, fsys.Rename(a, b)) // the same file: both names stay
		must(t, fsys.Remove(a))
		must(t, fsys.Remove(b))
		if got := readFile(t, fsys, filepath.Join(sub, "c")); got != "hello" {
			t.Errorf("the last name reads %q", got)
		}
	})
}

// plainFS is an FS of a user's, without optional methods.
type plainFS struct{ FS }

func TestLinkUnsupported(t *testing.T) {
	m := NewMem()
	writeFile(t, m, "a", "1")
	for name, fsys := range map[string]FS{
		"plain":          plainFS{m},
		"below a Fault":  NewFault(plainFS{m}, func(Op) Outcome { return Outcome{} }),
		"below a Dir":    &Dir{FS: plainFS{m}},
		"Fault in a Dir": &Dir{FS: NewFault(plainFS{m}, func(Op) Outcome { return Outcome{} })},
	} {
		var pe *fs.PathError
		if err := Link(fsys, "a", "b"); !errors.Is(err, ErrCannotLink) || !errors.As(err, &pe) ||
			pe.Path != "b" {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, Link(&Dir{FS: m}, "a", "b"))
}

// TestLinkOfHeldDirectory links within the directory that is held, out of it and
// into it, when its name is another directory's already.
func TestLinkOfHeldDirectory(t *testing.T) {
	top := t.TempDir()
	dir, out := filepath.Join(top, "db"), filepath.Join(top, "out")
	must(t, Default.MkdirAll(out))
	d, err := OpenDir(Default, dir, DirOptions{Create: true})
	must(t, err)
	defer d.Close()
	writeFile(t, d, filepath.Join(dir, "a"), "1")
	writeFile(t, Default, filepath.Join(out, "in"), "2")
	must(t, d.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	must(t, d.Link(filepath.Join(dir, "a"), filepath.Join(out, "a")))
	must(t, d.Link(filepath.Join(out, "in"), filepath.Join(dir, "in")))
	if got := dump(t, Default, top); got != "db{LOCK= a=1x1 b=1x1 in=2x1} out{a=1x1 in=2x1}" {
		t.Error(got)
	}
}
