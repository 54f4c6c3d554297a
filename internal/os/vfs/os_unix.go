//go:build unix

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// openAt is openat(2).
func openAt(dir int, elem string, flags int, mode uint32) (fd int, err error) {
	err = filelock.Again(func() error {
		fd, err = unix.Openat(dir, elem, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		return err
	})
	return fd, err
}

// isIrregular reports whether the name exists and is not a regular file: the systems' answers to
// opening a link or a socket differ.
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

// openFile opens a regular file. O_NONBLOCK keeps a FIFO from blocking; fstat then refuses it.
func openFile(dir int, elem, name string) (*osReadFile, error) {
	fd, err := openAt(dir, elem, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		if isIrregular(dir, elem) {
			err = ErrNotRegular
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = filelock.Stat(fd, &st); err == nil {
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
	r.closed = closesLock(filelock.IDOf(&st))
	return r, nil
}

// openDirFD opens a directory and nothing else. A link to one is followed.
//
// Neither this nor anything else here opens by package os, nor hands it a
// descriptor that does not block: it would start Go's poller, and where that
// cannot have its descriptors the runtime ends the process.
func openDirFD(dir string) (fd int, err error) {
	err = filelock.Again(func() error {
		fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, pathError("open", dir, err)
}

func openDir(dir string) (*os.File, error) {
	fd, err := openDirFD(dir)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// pollerReady says that Go's poller has its descriptors.
var pollerReady atomic.Bool

// startPoller has the runtime start its poller, as the first timer does, while
// there are descriptors for it.
func startPoller(dir string) error {
	if pollerReady.Load() {
		return nil
	}
	const needed = 3 // epoll and its event, and one of ours
	var err error
	var fds []int
	for len(fds) < needed && err == nil {
		var fd int
		if fd, err = openDirFD("/"); err == nil {
			fds = append(fds, fd)
		}
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	if err != nil {
		return base.Classify(pathError("open", dir, errors.Unwrap(err)))
	}
	time.AfterFunc(time.Hour, func() {}).Stop()
	pollerReady.Store(true)
	return nil
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

// syncDirFD is fsync(2) of an open directory. Nothing more can be done where the file system has no
// such operation.
func syncDirFD(fd int) error {
	err := filelock.Again(func() error { return unix.Fsync(fd) })
	if cannotSyncDirs(err) {
		return nil
	}
	return err
}

// cannotSyncDirs tells the answers of file systems that sync no directories. EBADF is one, as
// directories are opened for reading, and the descriptor is open.
func cannotSyncDirs(err error) bool {
	return err == unix.EINVAL || err == unix.EBADF || errors.Is(err, errors.ErrUnsupported)
}

func createPath(name string) (*os.File, error) { return createFile(unix.AT_FDCWD, name, name) }

func openPath(name string) (*osReadFile, error) { return openFile(unix.AT_FDCWD, name, name) }

func lockPath(name string, shared bool) (io.Closer, error) {
	l, err := lockFile(unix.AT_FDCWD, name, name, shared)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// storedFactor is how many bytes of a file one byte on disk may stand for,
// where the file system may compress: btrfs stores 128 KiB in no less than 4.
const storedFactor = 32

// storedBytes bounds the bytes of a file that are not holes, and tells whether
// there are holes. Few st_blocks alone do not mean holes: ZFS counts them only
// some seconds after the fsync, and some FUSE file systems never.
func storedBytes(fd int, st *unix.Stat_t) (n int64, holes bool) {
	const unit = 512 // of st_blocks, whatever the block size
	n = int64(st.Blocks) * unit
	if n >= st.Size || hasNoHole(fd, st.Size) {
		return st.Size, false
	}
	if mayCompress(fd) {
		n = min(n, math.MaxInt64/storedFactor) * storedFactor
	}
	return min(n, st.Size), true
}

// syncRead syncs a file that is open for reading.
func syncRead(f *os.File) error { return syncFile(f) }
