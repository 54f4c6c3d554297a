//go:build !unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
)

func createPath(name string) (*os.File, error) {
	return openShared(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
}

// openPath opens a regular file. The name is checked before it is opened, and the open file is
// compared with that check, so that a link put there in between is refused as well.
func openPath(name string) (*osReadFile, error) {
	seen, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	f, err := openShared(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !os.SameFile(seen, st) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osReadFile{f: f, size: st.Size(), stored: st.Size()}, nil
}

// reusePath fails: these systems do not rename files that are open.
func reusePath(oldName, newName string) (*os.File, int64, error) {
	return nil, 0, &fs.PathError{Op: "reuse", Path: oldName, Err: errors.ErrUnsupported}
}

func openDir(dir string) (*os.File, error) { return os.Open(dir) }

// syncDir checks that dir is a directory: these systems do not sync them.
func syncDir(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return &fs.PathError{Op: "sync", Path: dir, Err: fs.ErrInvalid}
	}
	return nil
}

// startPoller has nothing to reserve on systems without a small limit.
func startPoller(dir string) error { return nil }
