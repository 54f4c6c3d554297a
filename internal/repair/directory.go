package repair

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/current"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/vfs"
)

// findFormat tells the format of the directory with the files names, also where CURRENT
// is damaged or missing. Then MANIFESTs that can be read decide, and after them the number of files:
// some may be strangers with names of the other format.
func findFormat(fsys vfs.FS, dir string, names []string) (base.Format, error) {
	c, err := current.Read(fsys, dir)
	if err == nil || errors.Is(err, base.ErrCorruption) {
		return c.Format, nil
	}
	if !unreadable(err) {
		return 0, err
	}
	const readable = 1 << 32 // counts more than all names
	var found [2]uint64
	for _, name := range names {
		for _, f := range []base.Format{base.LevelDB, base.Native} {
			t, _ := f.ParseFileName(name)
			if t == base.FileLog || t == base.FileTable || t == base.FileManifest {
				found[f]++
			}
			if t != base.FileManifest {
				continue
			}
			res, err := manifest.ReadManifest(fsys, dir, name, f)
			switch {
			case res.State.LevelDBBelow > 0: // of an upgrade, which leaves files of either format
				return base.Native, nil
			case res.Size > 0 || errors.Is(err, base.ErrNewerFormat):
				found[f] += readable
			case err != nil && !unreadable(err):
				return 0, err
			}
		}
	}
	if found[base.Native] > found[base.LevelDB] {
		return base.Native, nil
	}
	return base.LevelDB, nil
}

// unreadable reports whether an error of reading CURRENT or a MANIFEST says that there is no
// such file, or not one of this engine; others are failures to read.
func unreadable(err error) bool {
	return slices.ContainsFunc([]error{base.ErrCorruption, base.ErrNewerFormat, base.ErrNotADatabase, fs.ErrNotExist}, func(e error) bool { return errors.Is(err, e) })
}

// Destroy removes the regular files in dir that are the database's by name: those of its
// format, and what an upgrade left. LOCK comes last.
func Destroy(fsys vfs.FS, dir string) error {
	names, err := ownFiles(fsys, dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := fsys.Stat(path); err == nil && info.Mode().IsRegular() {
			errs = append(errs, fsys.Remove(path))
		}
	}
	errs = append(errs, current.Remove(fsys, dir))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return fsys.Remove(filepath.Join(dir, base.LockName))
}

// ownFiles returns the files of dir that are the database's by name, without LOCK and
// CURRENT.
func ownFiles(fsys vfs.FS, dir string) (own []string, err error) {
	names, err := fsys.List(dir)
	format, below := base.LevelDB, uint64(0)
	if err == nil {
		format, err = findFormat(fsys, dir, names)
	}
	if err == nil && format == base.Native {
		below, err = levelDBBelow(fsys, dir)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		t, _ := format.ParseFileName(name)
		if t == base.FileUnknown && below > 0 {
			num := uint64(0)
			if t, num = base.LevelDB.ParseFileName(name); num >= below || t == base.FileInfoLog {
				continue
			}
		}
		if t != base.FileUnknown && t != base.FileLock && t != base.FileCurrent || name == base.LoadName || name == base.LoadTempName {
			own = append(own, name)
		}
	}
	return own, nil
}

// levelDBBelow reads what an upgrade left; 0 also if damage hides it.
func levelDBBelow(fsys vfs.FS, dir string) (uint64, error) {
	res := &manifest.ReadResult{}
	c, err := current.Read(fsys, dir)
	if err == nil {
		res, err = manifest.ReadManifest(fsys, dir, c.Manifest, base.Native)
	}
	if unreadable(err) {
		err = nil
	}
	return res.State.LevelDBBelow, err
}
