//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// openAt is openat(2), again when a signal interrupts it.
func openAt(dir int, elem string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, elem, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// isIrregular tells whether what stands at the name is there and not a regular
// file: the systems' answers to opening a link or a socket differ.
func isIrregular(dir int, elem string) bool {
	st, err := statAt(dir, elem)
	return err == nil && !st.Mode().IsRegular()
}

func createFile(dir int, elem, name string) (*os.File, error) {
	fd, err := openAt(dir, elem, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openFile opens a regular file. O_NONBLOCK keeps a FIFO from blocking the
// open; fstat then refuses it.
func openFile(dir int, elem, name string) (*osReadFile, error) {
	fd, err := openAt(dir, elem, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		if isIrregular(dir, elem) {
			err = ErrNotRegular
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = ErrNotRegular
		} else {
			err = unix.SetNonblock(fd, false)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	r := &osReadFile{f: os.NewFile(uintptr(fd), name), size: st.Size}
	r.stored, r.holes = storedBytes(fd, &st)
	r.closed = closesLock(statID(&st))
	return r, nil
}

// openDir opens a directory and nothing else, without blocking.
func openDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// syncDir syncs a directory.
func syncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return pathError("sync", dir, syncDirFD(int(d.Fd())))
}

// syncDirFD is fsync(2). File systems that have no such operation answer EINVAL
// or ENOTSUP; nothing more can be done there.
func syncDirFD(fd int) error {
	for {
		err := unix.Fsync(fd)
		switch {
		case err == unix.EINTR:
			continue
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP):
			return nil
		}
		return err
	}
}

func createPath(name string) (*os.File, error) { return createFile(unix.AT_FDCWD, name, name) }

func openPath(name string) (*osReadFile, error) { return openFile(unix.AT_FDCWD, name, name) }

// lockPath returns an io.Closer only with a nil error.
func lockPath(name string, shared bool) (*osLock, error) {
	return lockFile(unix.AT_FDCWD, name, name, shared)
}

// storedFactor is how many bytes of a file one byte on disk may stand for,
// where the file system may compress: btrfs stores 128 KiB in no less than 4.
const storedFactor = 32

// storedBytes bounds the bytes of a file that are not holes, and tells whether
// there are holes.
func storedBytes(fd int, st *unix.Stat_t) (n int64, holes bool) {
	const unit = 512 // of st_blocks, whatever the block size
	n = int64(st.Blocks) * unit
	if n >= st.Size {
		return st.Size, false
	}
	if mayCompress(fd) {
		n = min(n, math.MaxInt64/storedFactor) * storedFactor
	}
	return min(n, st.Size), true
}
