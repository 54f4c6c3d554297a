//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openRetry is open(2), again when a signal interrupts it.
func openRetry(name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// isIrregular tells whether what stands at name is there and not a regular
// file: the systems' answers to opening a link or a socket differ.
func isIrregular(name string) bool {
	st, err := os.Lstat(name)
	return err == nil && !st.Mode().IsRegular()
}

func createFile(name string) (*os.File, error) {
	fd, err := openRetry(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openFile opens a regular file. O_NONBLOCK keeps a FIFO from blocking the
// open; fstat then refuses it.
func openFile(name string) (*os.File, int64, error) {
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		if isIrregular(name) {
			err = ErrNotRegular
		}
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: err}
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
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), st.Size, nil
}

// openDir opens a directory and nothing else, without blocking.
func openDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// syncDir syncs a directory. File systems that have no such operation answer
// EINVAL or ENOTSUP; nothing more can be done there.
func syncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
