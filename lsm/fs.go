package lsm

import (
	"io"
	"io/fs"

	"github.com/loamdb/loam/internal/os/vfs"
)

// FS is the file system that a database lives on. The default is that of the operating system,
// OSFS; a wrapper embeds an FS and overrides some of its methods. All methods are safe for
// concurrent use. Names are absolute paths. The operating system's file system resolves them from
// the directory that it holds open; a wrapper gets them whole. Errors of shortages wrap ErrNoSpace,
// ErrNoMemory or ErrTooManyFiles, as OSFS's do: calls of the database pass them on.
//
// Three more methods are optional. A wrapper that does not pass them on loses them:
//
// Link(oldName, newName string) error gives a file a second name, which saves copies of tables.
//
// LockShared(name string) (io.Closer, error) is a Lock that readers share.
//
// ReuseLog(oldName, newName string, ahead int64) (LogFile, int64, error) makes an old log the next
// one and returns its size in bytes.
type FS interface {
	// Create makes a new regular file for writing. It fails with fs.ErrExist where the name is
	// taken.
	Create(name string) (WriteFile, error)
	// CreateLog makes a new file as Create does, for appending small records. ahead is how many
	// bytes to allocate ahead of the end; 0 for none.
	CreateLog(name string, ahead int64) (LogFile, error)
	// Open opens a regular file for reading. It refuses directories, devices and the like.
	Open(name string) (ReadFile, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename gives a file or directory another name, and replaces a file of that name in one step.
	Rename(oldName, newName string) error
	// MkdirAll makes a directory and its parents.
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a file; it does not follow a final link.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes creations, links, renames and removals in a directory durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, which it makes if there is none, until Close. It
	// fails with ErrLocked where the file is locked.
	Lock(name string) (io.Closer, error)
}

// OSFS is the operating system's file system, for wrappers to embed.
func OSFS() FS { return vfs.Default }

// ReadFile is a file that an FS opened for reading. It is safe for concurrent use.
type ReadFile = interface {
	io.ReaderAt
	io.Closer
	// Size is the length in bytes when the file was opened.
	Size() int64
	// Prefetch hints that n bytes from off on will be read soon. It does not block.
	Prefetch(off, n int64)
}

// WriteFile is a file that an FS created, written from front to back by one goroutine at a time.
type WriteFile = interface {
	io.Writer
	// Sync makes what was written durable.
	Sync() error
	// Close does not sync.
	Close() error
}

// LogFile is a log that an FS created, appended to by one goroutine at a time. After an error of
// Append only Truncate and Close follow, after an error of Truncate or Sync only Close.
type LogFile = interface {
	// Append writes all of p at the end, so that it survives the end of the process, and does not
	// keep p. A failed one may leave any part of p at the end.
	Append(p []byte) error
	// Truncate cuts the file back to size bytes, where an earlier Append ended. It does not run
	// beside a Sync.
	Truncate(size int64) error
	// Sync makes everything durable that was appended before the call. It may run beside an Append.
	Sync() error
	// Close does not sync.
	Close() error
}
