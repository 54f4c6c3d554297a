package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

// CheckExport says what of the database cannot be written in a format, and how many bytes its
// tables have.
func (db *DB) CheckExport(format base.Format) (bytes uint64, err error) {
	for _, k := range db.Manifest.Keyspaces() {
		if format == base.LevelDB {
			if k.ID != base.DefaultKeyspace {
				return 0, fmt.Errorf("%w: LevelDB's format has no keyspaces, and the database has %q", base.ErrInvalidArgument, k.Name)
			}
			if db.Default.Tree.Expires() {
				return 0, fmt.Errorf("%w: values of the database expire, and in LevelDB's format they would stay: put them again without a time to live, or wait until they have expired; then call CompactRange", base.ErrInvalidArgument)
			}
		}
		n, err := db.checkExportIn(k.ID, format)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// checkExportIn is CheckExport of one keyspace.
func (db *DB) checkExportIn(id base.KeyspaceID, format base.Format) (bytes uint64, err error) {
	v := db.Manifest.Current(id)
	defer v.Unref()
	for level := range v.Levels {
		for _, f := range v.Levels[level].Files {
			for kind := base.Kind(0); f.Kinds>>kind != 0; kind++ {
				if format == base.LevelDB && f.Kinds>>kind&1 != 0 && !kind.InLevelDB() {
					return 0, fmt.Errorf("%w: %s has entries of kind %d, which LevelDB's format does not have", base.ErrInvalidArgument, f.Name(), kind)
				}
			}
		}
	}
	return v.Size(), nil
}

// MakeWay removes dir if it is empty, and fails if there is anything in it, which may be
// somebody else's.
func MakeWay(fsys vfs.FS, dir string) error {
	switch names, err := fsys.List(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(names) > 0:
		return fmt.Errorf("%w: %s is not empty: delete it if an export that was cut short left it, or choose another name", base.ErrExists, dir)
	}
	return fsys.Remove(dir)
}
