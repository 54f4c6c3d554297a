//go:build cgo && rocksdb && unix

package rocksdb

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/loamdb/loam/importers"
)

// lock keeps other processes from opening a database for writing, by its file LOCK. The library
// would read beside them, and miss a log that one removed after the MANIFEST was read.
func lock(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // of a copy, say
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	whole := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &whole); err != nil {
		_ = f.Close() // nothing was written to it
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			err = importers.ErrInUse
		}
		return nil, err
	}
	return f, nil
}
