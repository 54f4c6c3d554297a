package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

// errUnsynced is the failure of a sync that the state depends on. It is not tried
// again: a second sync may succeed although the first one lost the data.
var errUnsynced = errors.New("sync failed")

// setCurrent makes CURRENT name MANIFEST num, which is durable already, by way
// of a temporary file. renamed tells whether CURRENT may name it although the
// call failed.
func setCurrent(fsys vfs.FS, dir string, num uint64) (renamed bool, err error) {
	temp := filepath.Join(dir, base.FileName(base.FileTemp, num))
	if err := writeTemp(fsys, temp, base.FileName(base.FileManifest, num)+"\n"); err != nil {
		return false, fmt.Errorf("writing %s: %w", base.CurrentName, err)
	}
	if err := fsys.Rename(temp, filepath.Join(dir, base.CurrentName)); err != nil {
		return true, fmt.Errorf("writing %s: %w", base.CurrentName, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return true, fmt.Errorf("writing %s: %w: %w", base.CurrentName, errUnsynced, err)
	}
	return true, nil
}

// writeTemp makes a durable file and removes it again when that fails.
func writeTemp(fsys vfs.FS, name, contents string) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(contents))
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}
