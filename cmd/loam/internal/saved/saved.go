// Package saved opens the backups of a folder as file systems, so that a verb reads one that was
// not restored.
package saved

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/lsm"
)

// Name is the argument of a verb that means backup id of a folder.
func Name(folder string, id uint64) string { return folder + "@" + strconv.FormatUint(id, 10) }

// Parse is the inverse of Name. A directory of that very name is no backup.
func Parse(name string) (folder string, id uint64, ok bool) {
	at := strings.LastIndexByte(name, '@')
	if at <= 0 {
		return "", 0, false
	}
	id, err := strconv.ParseUint(name[at+1:], 10, 64)
	if err != nil {
		return "", 0, false
	}
	_, err = os.Lstat(name)
	return name[:at], id, os.IsNotExist(err)
}

// Explain adds to an error of opening a directory as a database what reads it if it is a folder of
// backups.
func Explain(dir string, err error) error {
	if _, stat := os.Stat(filepath.Join(dir, backup.FolderName)); stat != nil ||
		!errors.Is(err, lsm.ErrDoesNotExist) {
		return err
	}
	return fmt.Errorf("%w: a folder of backups is read by the number of one, as in %s", err,
		Name(dir, 1))
}

// Backup is a backup that is open for reading. It keeps the folder's lock, which readers share.
type Backup struct {
	FS     lsm.FS
	Dir    string // in FS: that of the database
	view   *backup.View
	folder *backup.Folder
}

// Open opens a backup of a folder. Besides the errors of backup.Open it fails with
// lsm.ErrDoesNotExist.
func Open(folder string, id uint64) (*Backup, error) {
	f, err := backup.Open(folder, backup.Options{FS: lsm.OSFS(), Missing: true, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	v, err := f.View(id)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", folder, err), f.Close())
	}
	return &Backup{FS: v, Dir: v.Dir, view: v, folder: f}, nil
}

// Close gives the folder back.
func (b *Backup) Close() error { return errors.Join(b.view.Close(), b.folder.Close()) }
