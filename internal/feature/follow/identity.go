package follow

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
)

// fileIdentity is that of a file or directory, where the system has one.
type fileIdentity struct {
	fileid.ID
	known bool
}

func (i *fileIdentity) init(info fs.FileInfo) { i.ID, i.known = fileid.Of(info) }

// same reports whether info can be of the same file.
func (i *fileIdentity) same(info fs.FileInfo) bool {
	var other fileIdentity
	other.init(info)
	return other == *i
}

// identity is that of the directory.
type identity struct{ fileIdentity }

func (i *identity) find(fsys vfs.FS, dir string) error {
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

func identify(fsys vfs.FS, dir string) (i identity, err error) {
	info, err := fsys.Stat(dir + "/.") // also where dir is a link
	if err == nil {
		i.fileIdentity.init(info)
	}
	return i, err
}
