//go:build !unix && !windows

package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// errNoLocks is the cause: two processes could write one directory.
var errNoLocks = errors.New("this system has no locks of files: open the database in a file " +
	"system in memory, with Options.FS")

// lockPath fails.
func lockPath(name string, _ bool) (io.Closer, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.Join(errNoLocks,
		errors.ErrUnsupported)}
}
