package store

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// InDir opens and locks the directory of a database that is not open, and calls do. check judges
// the directory before the lock is taken. A panic, of the user's FS or Comparer for instance, is an
// error.
func InDir(fs vfs.FS, dir string, check func(fs vfs.FS, dir string) error,
	do func(*vfs.Dir) error) error {
	var d *vfs.Dir
	err := base.Protect(func() (err error) {
		d, err = vfs.OpenDir(fs, dir, vfs.DirOptions{Check: check})
		return err
	})
	if err != nil {
		return err
	}
	err = base.Protect(func() error { return do(d) })
	return errors.Join(err, base.Protect(d.Close))
}
