package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
)

// A directory is made in another one beside it, which has its name and tempSuffix: as stagedDir in
// it. The file marker is in that before anything but LOCK, and until all is done: a directory with
// it may be emptied.
const (
	tempSuffix = ".incomplete"
	marker     = "INCOMPLETE"
	stagedDir  = "db"
)

// stageReserve is how many descriptors abort needs: of the directory that it empties, and of one in
// it.
const stageReserve = 2

// Stage is a database directory in the making. Its directory and lock are its own: what happens
// to them is nothing to the database that is copied, whose directory another vfs.Dir holds.
type Stage struct {
	outer vfs.FS       // in which the stage was opened
	fs    vfs.FS       // outer, but names below temp mean the directory that is held
	made  *fileid.Made // fs, while temp is held
	warn  func(what string, err error)
	to    string   // the name that it gets; absolute, unless the FS is a Mem
	temp  string   // the directory in which it is made
	dir   string   // where it is
	held  *vfs.Dir // temp and its lock
}

// Make makes the directory to, which must not exist, or be empty, by fill: all of it, durably, or
// nothing. fill makes files in a Stage, durable all of them, and says which. The directory in which
// to gets its name must exist, unless parents says to make it. What a crash left of an earlier
// Stage is removed. warn takes the files that could not be removed.
func Make(outer vfs.FS, to string, parents bool, warn func(string, error),
	fill func(s *Stage) (Content, error)) error {
	s, err := newStage(outer, to, parents, warn)
	if err != nil {
		return err
	}
	done := false
	defer func() { // also when a file system or a callback panics
		if !done {
			s.abort()
		}
	}()
	made, err := fill(s)
	if err == nil {
		err = s.commit(made)
	}
	if done = err == nil; !done {
		return err
	}
	s.discard()
	return s.lastLook(made)
}

// newStage begins a Stage, which commit or abort ends.
func newStage(outer vfs.FS, to string, parents bool,
	warn func(string, error)) (s *Stage, err error) {
	temp := to + tempSuffix
	s = &Stage{outer: outer, fs: outer, warn: warn, to: to, temp: temp,
		dir: filepath.Join(temp, stagedDir)}
	if err := s.free(); err != nil {
		return nil, err
	}
	// LOCK is made only in a directory that is nobody else's.
	if _, err := s.leftovers(); err != nil {
		return nil, err
	}
	if err := s.open(parents); err != nil {
		return nil, err
	}
	left := false
	err = s.placed() // another copy may have got the name before this one had the lock
	if err == nil {
		left, err = s.leftovers()
	}
	if err == nil {
		err = s.prepare(left)
	}
	if err != nil {
		s.discard()
		return nil, s.explain(err)
	}
	return s, nil
}

// open makes, holds and locks temp. Another copy that ends may remove it in between: then it is
// made again.
func (s *Stage) open(parents bool) (err error) {
	inner := s.outer
	if r, ok := inner.(files.RoomyFS); ok {
		inner = r.FS // vfs knows whether its names are paths
	}
	for range 100 {
		err = files.MakeRoom(func() (err error) {
			s.held, err = vfs.OpenDir(inner, s.temp,
				vfs.DirOptions{Create: true, NoParents: !parents, Reserve: stageReserve})
			return err
		})
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case err == nil:
		s.made = fileid.Track(files.RoomyFS{FS: s.held.FS})
		s.fs = s.made
	case errors.Is(err, base.ErrLocked):
		return fmt.Errorf("another copy is being made in %s: %w", s.temp, err)
	default:
		_ = s.outer.Remove(s.temp) // only if it is empty
	}
	return err
}

// free fails if the name is taken.
func (s *Stage) free() error {
	_, err := s.occupied()
	return err
}

// occupied fails if there is something at to that is not an empty directory. It reports
// whether there is one.
func (s *Stage) occupied() (empty bool, err error) {
	info, err := s.outer.Stat(s.to)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !info.IsDir() {
		return false, fmt.Errorf("%w: %s is not a directory: choose a name that is free",
			base.ErrExists, s.to)
	}
	var names []string
	if err == nil {
		names, err = s.outer.List(s.to)
	}
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: %s is not empty: choose a name that is free", base.ErrExists, s.to)
	}
	return true, err
}

// placed fails if temp cannot get the name: if that is taken, or is an empty directory of another
// file system, where no rename leads to.
func (s *Stage) placed() error {
	empty, err := s.occupied()
	if err != nil || !empty {
		return err
	}
	to, ok, err := fileid.OfDir(s.outer, s.to)
	if err != nil || !ok {
		return err
	}
	from, ok, err := fileid.OfDir(s.fs, s.temp)
	if err == nil && ok && from.Dev != to.Dev {
		err = fmt.Errorf("%w: a file system is mounted at %s: choose a name in it, as %s",
			base.ErrInvalidArgument, s.to, filepath.Join(s.to, stagedDir))
	}
	return err
}

// leftovers reports whether an earlier stage left something in temp, and fails if
// something else is there.
func (s *Stage) leftovers() (any bool, err error) {
	info, err := s.fs.Stat(s.temp)
	var names []string
	if err == nil && info.IsDir() {
		names, err = s.fs.List(s.temp)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // also when another copy has just removed it
	}
	if err == nil && info.IsDir() {
		if slices.Contains(names, marker) {
			return true, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == base.LockName })
	}
	if err == nil && (!info.IsDir() || len(names) > 0) {
		err = fmt.Errorf("%w: the copy is made under the name %s, which is taken: move that away",
			base.ErrExists, s.temp)
	}
	return false, err
}

// prepare makes the directory, and the marker before unless there is one.
func (s *Stage) prepare(left bool) error {
	if left {
		if err := s.clear(); err != nil { // else its files would be among those of the new copy
			return fmt.Errorf("removing what an earlier copy left in %s: %w", s.temp, err)
		}
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

// Content is the files of a copy: by path below its directory, how many bytes each has at least.
type Content map[string]int64

// Dir is the directory while it is made.
func (s *Stage) Dir() string { return s.dir }

// commit gives the directory its name. Everything in it is durable, and it must have want.
func (s *Stage) commit(want Content) error {
	if err := s.whole(s.fs, want); err != nil {
		return s.explain(err)
	}
	empty, err := s.occupied()
	if err == nil && empty {
		err = s.outer.Remove(s.to)
	}
	if err == nil {
		err = s.fs.Rename(s.dir, s.to)
		if err != nil && s.made.Moved(s.dir, s.to) {
			err = nil // a network file system may lose the answer to a call
		}
		if errors.Is(err, fs.ErrExist) {
			err = errors.Join(s.free(), err)
		}
	}
	if err != nil {
		return s.explain(err)
	}
	s.dir = s.to
	return s.outer.SyncDir(filepath.Dir(s.to))
}

// lastLook makes sure, after everything else, that no other program took anything out of the copy
// since it was whole. Otherwise the files that are left go: those that are the stage's, no others.
func (s *Stage) lastLook(want Content) error {
	err := s.whole(s.outer, want)
	if err == nil {
		return nil
	}
	for _, path := range s.made.Own(s.outer, s.to) {
		s.tell(s.outer.Remove(path))
	}
	for _, name := range []string{base.LockName, base.CurrentName, ""} {
		_ = s.outer.Remove(filepath.Join(s.to, name)) // a directory if it is empty
	}
	if !errors.Is(err, base.ErrDirectoryChanged) {
		return err
	}
	text := "another program removed or replaced files of the copy " + s.to +
		" before it was done; what is left there is no copy"
	return &sentence{text, errors.Join(base.ErrDirectoryChanged, err)}
}

// Note takes files that were not made by the stage's own file system, with their paths below its
// directory, for its own.
func (s *Stage) Note(names []string) error {
	for _, name := range names {
		path := filepath.Join(s.dir, filepath.FromSlash(name))
		info, err := s.fs.Stat(path)
		if err != nil {
			return s.explain(err)
		}
		s.made.Note(path, info)
	}
	return nil
}

// whole fails with base.ErrDirectoryChanged if the directory lacks a file or a part of one, or has
// another file of the name: another program was at work in it.
func (s *Stage) whole(fsys vfs.FS, want Content) error {
	if err := s.made.Check(fsys, s.dir); err != nil {
		return err
	}
	for name, size := range want {
		path := filepath.Join(s.dir, filepath.FromSlash(name))
		info, err := fsys.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || !info.Mode().IsRegular() || info.Size() < size {
			return &fs.PathError{Op: "check", Path: path, Err: base.ErrDirectoryChanged}
		}
	}
	return nil
}

// explain makes clear that not the database's directory changed, but that of its copy: a name
// that is gone from it says so, too.
func (s *Stage) explain(err error) error {
	var p *fs.PathError
	gone := errors.Is(err, fs.ErrNotExist) && errors.As(err, &p) &&
		strings.HasPrefix(p.Path, s.temp)
	if !gone && !errors.Is(err, base.ErrDirectoryChanged) {
		return err
	}
	text := "another program removed or replaced files of the copy in " + s.temp +
		" while it was made"
	return &sentence{text, errors.Join(base.ErrDirectoryChanged, err)}
}

// abort removes the directory.
func (s *Stage) abort() {
	s.held.UseReserve()
	s.tell(s.clear())
	s.discard()
}

// discard removes temp if there is nothing in it but LOCK and the marker. Otherwise the marker
// says that it is of no use. The lock is held until LOCK has no name: another copy of this name
// locks no file that is about to go.
func (s *Stage) discard() {
	names := s.list(s.temp)
	if slices.ContainsFunc(names, func(name string) bool {
		return name != base.LockName && name != marker
	}) {
		s.tell(s.held.Close())
		return
	}
	if slices.Contains(names, marker) {
		s.remove(filepath.Join(s.temp, marker))
	}
	lock := filepath.Join(s.temp, base.LockName)
	err := s.fs.Remove(lock)
	s.tell(s.held.Close())
	s.fs = s.outer
	if err != nil && !errors.Is(err, base.ErrDirectoryChanged) && !errors.Is(err, fs.ErrNotExist) {
		s.remove(lock) // some systems remove no open file
	}
	if err := s.outer.Remove(s.temp); !errors.Is(err, fs.ErrExist) { // another copy has begun there
		s.tell(err)
	}
}

// clear removes the database, or the part of it that there is. It fails if something stays.
func (s *Stage) clear() error {
	var errs []error
	for _, name := range s.list(s.dir) {
		path := filepath.Join(s.dir, name)
		if name == base.CurrentName || name == base.CurrentName+".tmp" {
			for _, pointer := range s.list(path) {
				errs = append(errs, s.fs.Remove(filepath.Join(path, pointer)))
			}
		}
		errs = append(errs, s.fs.Remove(path))
	}
	err := s.fs.Remove(s.dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(append(errs, err)...)
}

// list lists a directory; nothing if it is a file, or is not there.
func (s *Stage) list(dir string) []string {
	info, err := s.fs.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	names, err := s.fs.List(dir)
	s.tell(err)
	return names
}

func (s *Stage) remove(path string) { s.tell(s.fs.Remove(path)) }

// tell logs a failure to clean up.
func (s *Stage) tell(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.warn("what is left of a copy in "+s.temp+" stays", err)
	}
}
