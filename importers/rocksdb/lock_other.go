//go:build cgo && rocksdb && !unix

package rocksdb

import (
	"errors"
	"os"
)

// lock keeps other processes from opening a database for writing: they do not share its file LOCK.
func lock(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // of a copy, say
		err = nil
	}
	return f, err
}
