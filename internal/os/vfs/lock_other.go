//go:build !unix && !windows

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// errNoLocks is the cause: two processes could write one directory.
var errNoLocks = fmt.Errorf("%w: this system has no locks of files; open the database with "+
	"Options.ReadOnly, or one in a file system in memory, with Options.FS", errors.ErrUnsupported)

// lockPath fails.
func lockPath(name string, _ bool) (io.Closer, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errNoLocks}
}
