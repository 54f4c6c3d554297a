package follow

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
)

// identity is that of a file or directory, where the system has one.
type identity struct {
	fileid.ID
	known bool
}

func identityOf(info fs.FileInfo) (i identity) {
	i.ID, i.known = fileid.Of(info)
	return i
}

// identify is the identity of the directory to which a name leads.
func identify(fsys vfs.FS, dir string) (identity, error) {
	info, err := fsys.Stat(dir + "/.") // also where dir is a link
	if err != nil {
		return identity{}, err
	}
	return identityOf(info), nil
}

// check fails with base.ErrDirectoryChanged when the name leads to another directory, or to none.
func (i identity) check(fsys vfs.FS, dir string) error {
	now, err := identify(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", base.ErrDirectoryChanged, err)
	case err != nil:
		return err
	case now != i && fileid.Steady(fsys, dir+"/.", now.ID):
		return fmt.Errorf("%w: %s is another one", base.ErrDirectoryChanged, dir)
	}
	return nil
}
