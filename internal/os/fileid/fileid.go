// Package fileid tells files apart by the numbers that the operating system gives them, whatever
// their names are.
package fileid

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ID is that of a file that exists. Some FUSE file systems give a file another one each time, or
// all files the same: such numbers tell nothing.
type ID struct{ Dev, Ino uint64 }

// OfDir returns the ID of the directory that a path leads to, by way of links, too. ok is false
// where the file system has no IDs.
func OfDir(fsys vfs.FS, path string) (id ID, ok bool, err error) {
	info, err := fsys.Stat(path + "/.")
	if err != nil {
		return id, false, err
	}
	id, ok = Of(info)
	return id, ok, nil
}

// Steady reports whether the file of a name still has the ID that it had a moment ago.
func Steady(fsys vfs.FS, name string, was ID) bool {
	info, err := fsys.Stat(name)
	if err != nil {
		return true
	}
	id, ok := Of(info)
	return ok && id == was
}

// Outside makes a path absolute if dir is, and fails with base.ErrInvalidArgument where it lies in
// the directory dir, by its name or by way of links. what names dir in the error.
func Outside(fsys vfs.FS, path, dir, what string) (string, error) {
	to := filepath.Clean(path)
	if filepath.IsAbs(dir) {
		abs, err := filepath.Abs(to)
		if err != nil {
			return "", err
		}
		to = abs
	}
	rel, err := filepath.Rel(dir, to)
	inside := err == nil && filepath.IsLocal(rel)
	if !inside {
		if inside, err = leadsInto(fsys, to, dir); err != nil {
			return "", fmt.Errorf("looking where %s leads: %w", path, err)
		}
	}
	if inside {
		return "", base.Invalidf("%s lies in %s", path, what)
	}
	return to, nil
}

// maxDepth bounds the directories above a path that are looked at.
const maxDepth = 1000

// leadsInto reports whether dir is the directory that a path leads to, or is above it. Missing
// parts of the path do not matter.
func leadsInto(fsys vfs.FS, path, dir string) (bool, error) {
	want, known, err := OfDir(fsys, dir)
	if !known || err != nil {
		return false, unless(absent(err), err)
	}
	if above, _, err := OfDir(fsys, dir+"/.."); err == nil && above == want {
		return false, nil // there is one number for all
	}
	id, known, err := OfDir(fsys, path)
	for absent(err) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		id, known, err = OfDir(fsys, path)
	}
	// From here on ".." is the directory above, wherever a link led.
	for depth := 0; known && err == nil && depth < maxDepth; depth++ {
		if id == want {
			return true, nil
		}
		below := id
		path += "/.."
		if id, known, err = OfDir(fsys, path); id == below {
			break // the root
		}
	}
	return false, unless(absent(err) || errors.Is(err, fs.ErrPermission), err)
}

// absent reports whether a name, or one on the way to it, is not there or is no directory.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func unless(harmless bool, err error) error {
	if harmless {
		return nil
	}
	return err
}
