package store

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/os/vfs"
)

// InDir opens and locks the directory of a database that is not open, and calls do. A panic, of the
// user's FS or Comparer for instance, is an error.
func InDir(fs vfs.FS, dir string, do func(*vfs.Dir) error) error {
	var d *vfs.Dir
	err := base.Protect(func() (err error) {
		d, err = vfs.OpenDir(fs, dir, vfs.DirOptions{Check: owner.Check})
		return err
	})
	if err != nil {
		return err
	}
	err = base.Protect(func() error { return do(d) })
	return errors.Join(err, base.Protect(d.Close))
}
