package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/files"
	"github.com/loamdb/loam/internal/vfs"
)

// A directory is made in another one beside it, which has its name and tempSuffix: as stagedDir in it.
// The file marker is in that before anything but LOCK, and until all is done: a directory with it may be
// emptied.
const (
	tempSuffix = ".incomplete"
	marker     = "INCOMPLETE"
	stagedDir  = "db"
)

// stage is a database directory in the making.
type stage struct {
	fs   vfs.FS
	warn func(what string, err error)
	to   string   // the name that it gets; absolute, unless the FS is a Mem
	temp string   // the directory in which it is made
	dir  string   // where it is
	held *vfs.Dir // temp and its lock
}

// newStage begins to make the directory to, which must not exist, or be empty, in one that
// exists. What a crash left of an earlier one is removed.
func newStage(fsys vfs.FS, to string, warn func(string, error)) (s *stage, err error) {
	temp := to + tempSuffix
	s = &stage{fs: fsys, warn: warn, to: to, temp: temp, dir: filepath.Join(temp, stagedDir)}
	if _, err := s.occupied(); err != nil {
		return nil, err
	}
	// LOCK is made only in a directory that is nobody else's.
	if _, err := s.leftovers(); err != nil {
		return nil, err
	}
	left, inner := false, fsys
	if r, ok := fsys.(files.RoomyFS); ok {
		inner = r.FS // vfs knows whether its names are paths
	}
	err = files.MakeRoom(func() error {
		s.held, err = vfs.OpenDir(inner, temp, vfs.DirOptions{Create: true, NoParents: true})
		return err
	})
	if errors.Is(err, base.ErrLocked) {
		return nil, fmt.Errorf("%w: another copy is being made there", base.ErrLocked)
	}
	if err == nil {
		left, err = s.leftovers()
	}
	if err == nil {
		err = s.prepare(left)
	}
	if err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// occupied fails if there is something at to that is not an empty directory. It reports
// whether there is one.
func (s *stage) occupied() (empty bool, err error) {
	info, err := s.fs.Stat(s.to)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !info.IsDir() {
		return false, fmt.Errorf("%w: %s is not a directory: choose a name that is free", base.ErrExists, s.to)
	}
	var names []string
	if err == nil {
		names, err = s.fs.List(s.to)
	}
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: %s is not empty: choose a name that is free", base.ErrExists, s.to)
	}
	return true, err
}

// leftovers reports whether an earlier stage left something in temp, and fails if
// something else is there.
func (s *stage) leftovers() (any bool, err error) {
	info, err := s.fs.Stat(s.temp)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var names []string
	if err == nil && info.IsDir() {
		if names, err = s.fs.List(s.temp); slices.Contains(names, marker) {
			return true, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == base.LockName })
	}
	if err == nil && (!info.IsDir() || len(names) > 0) {
		err = fmt.Errorf("%w: the copy is made under the name %s, which is taken: move that away", base.ErrExists, s.temp)
	}
	return false, err
}

// prepare makes the directory, and the marker before unless there is one.
func (s *stage) prepare(left bool) error {
	if left {
		s.clear()
	} else {
		w, err := s.fs.Create(filepath.Join(s.temp, marker))
		if err == nil {
			err = w.Close()
		}
		if err == nil {
			err = s.fs.SyncDir(s.temp)
		}
		if err != nil {
			return err
		}
	}
	return s.fs.MkdirAll(s.dir)
}

// commit gives the directory its name. Everything in it is durable.
func (s *stage) commit() error {
	empty, err := s.occupied()
	if err == nil && empty {
		err = s.fs.Remove(s.to)
	}
	if err == nil {
		err = s.fs.Rename(s.dir, s.to)
	}
	if err != nil {
		return err
	}
	s.dir = s.to
	if err := s.fs.SyncDir(filepath.Dir(s.to)); err != nil {
		return err
	}
	s.discard()
	return nil
}

// abort removes the directory.
func (s *stage) abort() {
	s.clear()
	s.discard()
}

// discard removes temp if there is nothing in it but LOCK and the marker. Otherwise the marker
// says that it is of no use.
func (s *stage) discard() {
	if s.held != nil {
		s.tell(s.held.Close()) // some systems remove no open file
		s.held = nil
	}
	names := s.list(s.temp)
	if slices.ContainsFunc(names, func(name string) bool { return name != base.LockName && name != marker }) {
		return
	}
	for _, name := range names {
		s.remove(filepath.Join(s.temp, name))
	}
	s.remove(s.temp)
}

// clear removes the database, or the part of it that there is.
func (s *stage) clear() {
	for _, name := range s.list(s.dir) {
		path := filepath.Join(s.dir, name)
		if name == base.CurrentName || name == base.CurrentName+".tmp" {
			for _, pointer := range s.list(path) {
				s.remove(filepath.Join(path, pointer))
			}
		}
		s.remove(path)
	}
	s.remove(s.dir)
}

// list lists a directory; nothing if it is a file, or is not there.
func (s *stage) list(dir string) []string {
	info, err := s.fs.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	names, err := s.fs.List(dir)
	s.tell(err)
	return names
}

func (s *stage) remove(path string) { s.tell(s.fs.Remove(path)) }

// tell logs a failure to clean up.
func (s *stage) tell(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.warn("what is left of a copy in "+s.temp+" stays", err)
	}
}
