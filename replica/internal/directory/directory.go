// Package directory removes directories of any lsm.FS.
package directory

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/lsm"
)

// RemoveAll removes a directory with all that is in it, if it is there.
func RemoveAll(on lsm.FS, dir string) error {
	names, err := on.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, n := range names {
		name := filepath.Join(dir, n)
		info, err := on.Stat(name)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			err = RemoveAll(on, name)
		default:
			err = on.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(err, on.Remove(dir))
}
