package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/loamdb/loam/internal/base"
)

// SharedLocker is an FS with locks that several readers hold at once. They exclude the exclusive
// lock of the same name, and it excludes them. The lock file is not created.
type SharedLocker interface {
	LockShared(name string) (io.Closer, error)
}

// Sparse is a ReadFile, or the io.ReaderAt of one, that knows its holes.
type Sparse interface {
	// Stored bounds the bytes that are not holes. It is the file's size when
	// nothing better is known.
	Stored() int64
	// NextData is the smallest offset from off on that may be in no hole, or the file's size.
	NextData(off int64) int64
}

// Stored is r's bound on the bytes that are not holes, or size.
func Stored(r io.ReaderAt, size int64) int64 {
	if s, ok := r.(Sparse); ok {
		return min(s.Stored(), size)
	}
	return size
}

// NextData skips the hole of r at off, if any.
func NextData(r io.ReaderAt, off int64) int64 {
	if s, ok := r.(Sparse); ok {
		return max(off, s.NextData(off))
	}
	return off
}

// Dir is a file system seen from a directory that is held. Names below Path
// mean the files of that directory, whatever becomes of the process's working
// directory and, on Unix, of the directory's own name. Other names mean what
// they mean in the FS that Dir was made of.
type Dir struct {
	FS
	Path string // absolute, unless the FS is a Mem

	hold io.Closer // the open directory; nil: names are resolved by Path
	lock io.Closer // nil: none was asked for, or a read-only directory has none

	reserve []io.Closer // descriptors
}

// DirOptions says how OpenDir opens, creates and locks a directory.
type DirOptions struct {
	Create    bool // make it when it is missing
	NoParents bool // but not its parents
	// a name that stands in each directory that was opened before; "": there is none
	Used string
	// descriptors to keep for UseReserve, where the directory is held by one
	Reserve int
	// of the directory, before the lock is taken; nil: none
	Check func(fsys FS, path string) error
	// change nothing: share the lock, and do without where there is none; with NoLock too
	ReadOnly, NoLock bool
}

// OpenDir holds and locks a directory until Close. Errors: base.ErrDoesNotExist,
// base.ErrNotADatabase for a file, base.ErrLocked,
// base.ErrInvalidArgument for the empty name.
func OpenDir(fsys FS, dir string, o DirOptions) (*Dir, error) {
	path, err := Absolute(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := startPoller(path); err != nil {
		return nil, err
	}
	if err := prepareDir(fsys, path, o); err != nil {
		return nil, err
	}
	d := &Dir{Path: path}
	if d.FS, d.hold, err = hold(fsys, path); err != nil {
		return nil, err
	}
	if o.Check != nil {
		err = o.Check(d.FS, d.Path)
	}
	if err == nil {
		err = d.keepReserve(o.Reserve)
	}
	if err == nil {
		err = d.takeLock(o)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// keepReserve opens the directory n times more.
func (d *Dir) keepReserve(n int) error {
	if d.hold == nil {
		return nil
	}
	for range n {
		_, c, err := hold(d.FS, d.Path)
		if err != nil {
			return err
		}
		d.reserve = append(d.reserve, c)
	}
	return nil
}

// UseReserve gives up the descriptors that DirOptions.Reserve kept, so that what follows,
// a clean-up, has some.
func (d *Dir) UseReserve() {
	for _, c := range d.reserve {
		_ = c.Close()
	}
	d.reserve = nil
}

// Absolute makes a path independent of the working directory. The names of a Mem
// are so already. The empty name, which an unset variable gives, is refused: it would
// mean the working directory.
func Absolute(fsys FS, dir string) (string, error) {
	if dir == "" {
		return "", base.Invalidf("the name is empty")
	}
	for {
		f, ok := fsys.(interface{ Below() FS })
		if !ok {
			break
		}
		fsys = f.Below()
	}
	if _, ok := fsys.(*Mem); ok {
		return dir, nil
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs, nil
	}
	return dir, nil // the working directory is gone
}

// prepareDir makes sure that dir is a directory, and makes it if that is wanted.
func prepareDir(fsys FS, dir string, o DirOptions) error {
	info, err := fsys.Stat(dir)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		// A link to a directory is the user's choice; what is inside is not.
	case err == nil && !info.IsDir():
		return fmt.Errorf("%w: %s is a file, not a directory", base.ErrNotADatabase, dir)
	case errors.Is(err, fs.ErrNotExist):
		if !o.Create || o.ReadOnly {
			return base.ErrDoesNotExist
		}
		return makeDir(fsys, dir, o.NoParents)
	}
	if err == nil && o.Create && !o.ReadOnly {
		err = syncMade(fsys, dir, o.Used)
	}
	return err
}

// syncMade makes the name of a directory durable that nothing was written to yet: what made it may
// have failed, or died, before it did that. A directory above that has no other name in it may have
// been made with it.
func syncMade(fsys FS, dir, used string) error {
	if used != "" {
		_, err := fsys.Stat(filepath.Join(dir, used))
		if !errors.Is(err, fs.ErrNotExist) {
			return unlessForbidden(err) // nil: a large directory is not listed
		}
	}
	names, err := fsys.List(dir)
	if err != nil {
		return unlessForbidden(err)
	}
	for d, most := filepath.Clean(dir), 0; len(names) <= most && filepath.Dir(d) != d; most = 1 {
		d = filepath.Dir(d)
		if err := unlessForbidden(fsys.SyncDir(d)); err != nil {
			return err
		}
		if names, err = fsys.List(d); err != nil {
			return nil // it cannot be told to be new
		}
	}
	return nil
}

// unlessForbidden passes over errors of directories that may be entered, but not read or synced.
func unlessForbidden(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// makeDir makes dir and its parents, and makes their names durable: without
// that a power cut could take the directory away with all that was synced.
func makeDir(fsys FS, dir string, noParents bool) error {
	var holders []string // of the new names, deepest first
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		_, err := fsys.Stat(d)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil || filepath.Dir(d) == d {
			break
		}
		holders = append(holders, filepath.Dir(d))
	}
	if noParents && len(holders) > 1 {
		return fmt.Errorf("a directory above it is missing: %w", syscall.ENOENT) // as mkdir(2)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for i := len(holders) - 1; i >= 0; i-- {
		// A directory that may be entered but not read cannot be synced.
		if err := fsys.SyncDir(holders[i]); err != nil && !errors.Is(err, fs.ErrPermission) {
			// Another try would find the directory and not sync its name.
			for made := filepath.Clean(dir); len(holders) > 0; made, holders =
				holders[0], holders[1:] {
				_ = fsys.Remove(made)
			}
			return err
		}
	}
	return nil
}

// takeLock takes the lock. With ReadOnly it creates no LOCK, and does without
// where the file system forbids locking.
func (d *Dir) takeLock(o DirOptions) (err error) {
	name := filepath.Join(d.Path, base.LockName)
	if !o.ReadOnly {
		d.lock, err = d.FS.Lock(name)
		return err
	}
	if _, err := d.FS.Stat(name); err != nil || o.NoLock {
		return nil
	}
	if s, ok := d.FS.(SharedLocker); ok {
		d.lock, err = s.LockShared(name)
	} else {
		d.lock, err = d.FS.Lock(name)
	}
	if errors.Is(err, base.ErrLocked) {
		return err
	}
	return nil
}

// Close releases the lock, then the directory. Later calls on names below Path
// fail with fs.ErrClosed where the directory was held by a descriptor.
func (d *Dir) Close() error {
	d.UseReserve()
	var errs []error
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	if d.hold != nil {
		errs = append(errs, d.hold.Close())
	}
	return errors.Join(errs...)
}

// hold returns fsys such that names below dir mean the directory that is there
// now. An FS of the user's keeps the path, which is absolute.
func hold(fsys FS, dir string) (FS, io.Closer, error) {
	switch f := fsys.(type) {
	case interface { // OS, and on Unix the directory that another Dir holds
		hold(dir string) (FS, io.Closer, error)
	}:
		return f.hold(dir)
	case *Fault:
		inner, c, err := hold(f.inner, dir)
		if err != nil {
			return nil, nil, err
		}
		return &Fault{inner: inner, hook: f.hook}, c, nil
	}
	return fsys, nil, nil
}
