package manifest

import (
	"errors"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
)

// Found is where a directory stood before an opening wrote anything.
type Found struct {
	set      *Set
	current  string // the MANIFEST that CURRENT named, "" for none
	nextFile uint64 // no file of the database had this number or a larger one
}

// Note takes down where the directory of s stands, nothing having been written.
func (f *Found) Note(s *Set) error {
	current, err := currentName(s)
	if err == nil {
		f.set, f.current, f.nextFile = s, current, s.NextFileNum()
	}
	return err
}

// currentName is ReadCurrent with "" where there is no CURRENT.
func currentName(s *Set) (string, error) {
	name, err := ReadCurrent(s.opts.FS, s.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return name, err
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
		_ = s.opts.FS.Remove(s.path(base.CurrentName)) // of an empty database
	}
	if current, err := currentName(s); err != nil || current != f.current {
		return err
	}
	for num := f.nextFile; num < s.NextFileNum(); num++ {
		for _, t := range []base.FileType{base.FileTable, base.FileLog, base.FileManifest, base.FileTemp} {
			_ = s.opts.FS.Remove(s.path(base.FileName(t, num))) // most are not there
		}
	}
	for _, name := range copies {
		_ = s.opts.FS.Remove(s.path(name))
	}
	return nil
}
