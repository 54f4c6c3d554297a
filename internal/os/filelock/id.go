//go:build unix

package filelock

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
)

// Again makes a system call until no signal interrupts it. Local file systems answer most calls
// without waiting; FUSE and network file systems answer any call with EINTR, and Go's scheduler
// sends signals all the time.
func Again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Stat is fstat(2).
func Stat(fd int, st *unix.Stat_t) error {
	return Again(func() error { return unix.Fstat(fd, st) })
}

// Lstat is fstatat(2) of a name itself, also of a link.
func Lstat(dir int, elem string, st *unix.Stat_t) error {
	return Again(func() error { return unix.Fstatat(dir, elem, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// ID tells files apart whatever the path they are reached by, on most file systems.
//
// Some FUSE file systems have numbers that change, each time or when a file was not in use for a
// while, or one number for all files. What such numbers cannot tell is taken to be unchanged.
type ID struct{ Dev, Ino uint64 }

// IDOf is the ID of a file. Tests replace it.
var IDOf = func(st *unix.Stat_t) ID { return ID{uint64(st.Dev), uint64(st.Ino)} }

// Still fails with base.ErrDirectoryChanged if the name does not lead to the open file f, which had
// the ID *id. A file whose ID has changed gets the present one.
func (id *ID) Still(dir int, elem string, f *os.File) error {
	var named, open unix.Stat_t
	if err := Lstat(dir, elem, &named); err != nil {
		return changed(err)
	}
	if IDOf(&named) == *id {
		return nil
	}
	if err := Stat(int(f.Fd()), &open); err != nil {
		return err
	}
	now := IDOf(&open)
	if now == *id {
		return base.ErrDirectoryChanged
	}
	*id = now // and if the name has a third one, IDs tell nothing
	return nil
}

// changed is base.ErrDirectoryChanged where err says that a name is gone or something else
// than it was, otherwise err.
func changed(err error) error {
	for _, gone := range []error{fs.ErrNotExist, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, gone) {
			return base.ErrDirectoryChanged
		}
	}
	return err
}
