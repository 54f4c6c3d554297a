package follow

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

// identity is that of the directory, where the system has one.
type identity struct {
	dev, ino uint64
	known    bool
}

func (i *identity) init(fsys vfs.FS, dir string) error {
	now, err := identify(fsys, dir)
	*i = now
	return err
}

// check fails with base.ErrDirectoryChanged when the name leads to another directory, or to none.
func (i *identity) check(fsys vfs.FS, dir string) error {
	now, err := identify(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", base.ErrDirectoryChanged, err)
	case err != nil:
		return err
	case now != *i:
		return fmt.Errorf("%w: %s is another one", base.ErrDirectoryChanged, dir)
	}
	return nil
}

func identify(fsys vfs.FS, dir string) (identity, error) {
	info, err := fsys.Stat(dir + "/.") // also where dir is a link
	if err != nil {
		return identity{}, err
	}
	dev, ino, known := fileID(info)
	return identity{dev, ino, known}, nil
}
