package vfs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/filelock"
)

func prefetch(f *os.File, off, n int64) {
	_ = unix.Fadvise(int(f.Fd()), off, n, unix.FADV_WILLNEED)
}

func startWriteBack(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}

// fdatasync, again when a signal interrupts it: then it has not failed.
func fdatasync(fd int) error {
	return filelock.Again(func() error { return unix.Fdatasync(fd) })
}

func syncFile(f *os.File) error {
	if err := fdatasync(int(f.Fd())); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// mayCompress tells whether a file may take fewer blocks than it has bytes
// without a hole in it. What is not known may.
func mayCompress(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return true
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return false
	}
	return true
}

// hasNoHole tells whether the file's first hole is its end. File systems that
// know no holes say so, or do not have the call.
func hasNoHole(fd int, size int64) bool {
	hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	return err == unix.EINVAL || err == nil && hole >= size
}

// nextData returns the start of the data at or after off, size when there is
// none, and off when the file system cannot tell.
func nextData(f *os.File, off, size int64) int64 {
	next, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case err == unix.ENXIO:
		return size
	case err != nil:
		return off
	}
	return next
}
