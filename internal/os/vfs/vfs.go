// Package vfs is the engine's view of the file system: the real one (OS), one
// in memory that can be cloned in any state a crash could leave (Mem), and one
// that injects faults around another (Fault).
//
// An FS and a ReadFile are safe for concurrent use. A WriteFile and a Log are
// used by one goroutine at a time, except that Log.Sync may run beside
// Log.Append.
//
// Errors are *fs.PathError where a name is involved, so that errors.Is works
// with fs.ErrNotExist, fs.ErrExist, syscall.ENOSPC and so on.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// FS is a file system. An FS may also be a Linker and a SharedLocker. Names are
// paths as the operating system takes them. A database uses absolute ones, so that a
// change of the working directory does not matter; with a Mem it takes them as given.
type FS interface {
	// Create makes a new regular file for writing, mode 0600. It fails with
	// fs.ErrExist when the name exists, whatever it is (a link is not followed).
	Create(name string) (WriteFile, error)
	// CreateLog makes a new file like Create, for appending small records.
	// ahead is how many bytes to allocate ahead of the end, 0 for none.
	CreateLog(name string, ahead int64) (Log, error)
	// Open opens a regular file for reading. Links, directories, FIFOs and
	// devices are refused without blocking.
	Open(name string) (ReadFile, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename replaces newName atomically.
	Rename(oldName, newName string) error
	// MkdirAll makes a directory and its parents, mode 0700.
	MkdirAll(dir string) error
	// List returns the base names in dir, sorted.
	List(dir string) ([]string, error)
	// Stat does not follow a final link.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes creations, links, renames and removals in dir durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock that the file name stands for, creating it
	// if needed (never truncating): within this process, by flock and by fcntl.
	// It ends with the process, forked children notwithstanding. If it is
	// held already, errors.Is(err, base.ErrLocked) holds. Closing releases it.
	Lock(name string) (io.Closer, error)
}

// ReadFile is a file opened for reading. It, WriteFile and Log are aliases of interface literals
// that package lsm repeats, so that a public FS is an FS here.
type ReadFile = interface {
	io.ReaderAt
	io.Closer
	// Size is the length in bytes when the file was opened.
	Size() int64
	// Prefetch hints that [off, off+n) will be read soon. It does not block.
	Prefetch(off, n int64)
}

// WriteFile is a file written from front to back. The OS implementation starts
// write-back every few MiB so that Sync never meets a mountain of dirty pages.
type WriteFile = interface {
	io.Writer
	// Sync makes what was written durable.
	Sync() error
	// Close does not sync.
	Close() error
}

// StartSync asks the system to begin to write out what f has, if it can, and does not
// wait. Of many files that are to be synced, all are started before the first Sync: then
// the device writes them together, and one commit of a journal makes all of them durable. An error
// is that of writing what f has gathered; Sync and Close return it, too.
func StartSync(f WriteFile) error {
	if s, ok := f.(interface{ StartSync() error }); ok {
		return s.StartSync()
	}
	return nil
}

// RemoveIfThere is Remove of a file that need not be there.
func RemoveIfThere(fsys FS, name string) error {
	err := fsys.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Abandon closes a file that is thrown away: what f has gathered is not written.
func Abandon(f WriteFile) error {
	if a, ok := f.(interface{ Abandon() error }); ok {
		return a.Abandon()
	}
	return f.Close()
}

// Descriptor is the open descriptor of f; ok says that the operating system has the file.
func Descriptor(f any) (fd uintptr, ok bool) {
	switch f := f.(type) {
	case interface{ file() *os.File }:
		return f.file().Fd(), true
	case *faultReadFile:
		return Descriptor(f.ReadFile)
	case *faultWriteFile:
		return Descriptor(f.inner)
	case interface{ Unwrap() WriteFile }:
		return Descriptor(f.Unwrap())
	case *faultLog:
		return Descriptor(f.inner)
	}
	return 0, false
}

// Log is an append-only file whose every Append reaches the kernel before it
// returns. After an error of Append only Truncate, Sync and Close may follow, after
// an error of Truncate or Sync only Close; but Truncate may be tried again after a
// shortage, such as that of btrfs, which needs space for a cut.
type Log = interface {
	// Append writes all of p at the end. It does not retain p. A failed one may
	// leave any part of p behind the end.
	Append(p []byte) error
	// Truncate cuts the log back to size bytes, where an earlier Append ended.
	// The next Append goes there. Not beside a Sync.
	Truncate(size int64) error
	// Sync makes all that was appended before the call durable.
	Sync() error
	// Close cuts off what was allocated ahead. It does not sync.
	Close() error
}
