package manifest

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/current"
	"github.com/loamdb/loam/internal/vfs"
)

// DeleteObsolete hands files of earlier runs to remove that are the database's by name and in
// no version: MANIFESTs but the one in force, tables, logs before firstLog. All others stay.
func (s *Set) DeleteObsolete(firstLog uint64, remove func(name string)) error {
	s.TakeObsolete() // they are found here
	names, err := s.opts.FS.List(s.opts.Dir)
	if err != nil {
		return err
	}
	live := map[uint64]struct{}{}
	s.LiveFiles(live)
	for _, name := range names {
		t, num := s.Knows(name)
		obsolete := false
		switch t {
		case base.FileLog:
			obsolete = num < firstLog
		case base.FileManifest:
			obsolete = num != s.ManifestNum()
		case base.FileTable:
			_, isLive := live[num]
			obsolete = !isLive
		case base.FileTemp:
			obsolete = true
		}
		if obsolete {
			remove(name)
		}
	}
	return s.cleanCurrent(names)
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
		format, err = current.FindFormat(fsys, dir, names)
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
		if t != base.FileUnknown && t != base.FileLock && t != base.FileCurrent {
			own = append(own, name)
		}
	}
	return own, nil
}

// levelDBBelow reads what an upgrade left; 0 also if damage hides it.
func levelDBBelow(fsys vfs.FS, dir string) (uint64, error) {
	res := &ReadResult{}
	c, err := current.Read(fsys, dir)
	if err == nil {
		res, err = ReadManifest(fsys, dir, c.Manifest, base.Native)
	}
	for _, damage := range []error{base.ErrCorruption, base.ErrNewerFormat, base.ErrNotADatabase, fs.ErrNotExist} {
		if errors.Is(err, damage) {
			err = nil
		}
	}
	return res.State.LevelDBBelow, err
}
