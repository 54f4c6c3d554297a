package manifest

import (
	"errors"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Found is where a directory stood before an opening wrote anything.
type Found struct {
	set      *Set
	current  string // the MANIFEST that CURRENT named, "" for none
	nextFile uint64 // no file of the database had this number or a larger one
}

// Note takes down where the directory of s stands, nothing having been written.
func (f *Found) Note(s *Set) error {
	name, err := currentName(s)
	if err == nil {
		f.set, f.current, f.nextFile = s, name, s.NextFileNum()
	}
	return err
}

// currentName is the name of the MANIFEST in force, "" where there is no CURRENT.
func currentName(s *Set) (string, error) {
	c, err := current.Read(s.opts.FS, s.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return c.Manifest, err
}

// Restore removes what the opening made since Note, when it failed: the files
// with new numbers, and the copies. It closes the Set. If CURRENT may name a new
// MANIFEST, all stays. Without a Note it does nothing.
func (f *Found) Restore(copies []string) error {
	s := f.set
	if s == nil {
		return nil
	}
	_ = s.Close()
	if f.current == "" {
		if err := f.uncreate(); err != nil {
			return err
		}
	}
	if name, err := currentName(s); err != nil || name != f.current {
		return err
	}
	types := []base.FileType{base.FileTable, base.FileLog, base.FileManifest, base.FileValues}
	if s.format == base.LevelDB {
		types[len(types)-1] = base.FileTemp
	}
	err := f.remove(types...)
	if s.Upgrading() && err == nil { // the mark stays as long as there are files of the upgrade
		err = s.removeMark()
	}
	for _, name := range copies {
		err = errors.Join(err, s.opts.FS.Remove(s.path(name)))
	}
	return err
}

// uncreate removes the logs and CURRENT of a new database, whose logs hold no batch. At
// each step the directory is a database or none, also after a power cut: a log without
// CURRENT, and CURRENT without its MANIFEST, would be damage.
func (f *Found) uncreate() error {
	s := f.set
	if err := f.remove(base.FileLog); err != nil {
		return err
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return err
	}
	return current.Remove(s.opts.FS, s.opts.Dir)
}

// remove removes the files of these types that have new numbers.
func (f *Found) remove(types ...base.FileType) (err error) {
	s := f.set
	for num := f.nextFile; num < s.NextFileNum(); num++ {
		for _, t := range types {
			// Most are not there.
			name := s.path(s.format.FileName(t, num))
			err = errors.Join(err, vfs.RemoveIfThere(s.opts.FS, name))
		}
	}
	return err
}
