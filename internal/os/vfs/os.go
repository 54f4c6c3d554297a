package vfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"syscall"

	"github.com/loamdb/loam/internal/base"
)

// Default is the operating system's file system.
var Default FS = OS{}

// ErrNotRegular is the cause when a name that must be a regular file is a
// link, a directory, a FIFO or a device.
var ErrNotRegular = errors.New("not a regular file")

// errLockedHere says that the lock's holder is this very process.
var errLockedHere = lockedHere{}

type lockedHere struct{}

func (lockedHere) Error() string        { return base.ErrLocked.Error() + " by this process" }
func (lockedHere) Is(target error) bool { return target == base.ErrLocked }

// lockedBy is base.ErrLocked with the process that has the lock; 0: it is not known.
type lockedBy int

func (pid lockedBy) Error() string {
	if pid <= 0 {
		return base.ErrLocked.Error() + " by another process"
	}
	return fmt.Sprintf("%v by process %d", base.ErrLocked, int(pid))
}
func (lockedBy) Is(target error) bool { return target == base.ErrLocked }

// OS is the operating system's file system.
type OS struct {
	PlainLog bool // append to logs by system calls only
	// MapAnywhere lets files be mapped on file systems that are not known to be local:
	// a page fault there may wait for a network or for another process.
	MapAnywhere bool
}

// Create makes a new file.
func (OS) Create(name string) (WriteFile, error) {
	f, err := createPath(name)
	if err != nil {
		return nil, base.Classify(err)
	}
	return newWriteFile(f), nil
}

// CreateLog makes a new log.
func (o OS) CreateLog(name string, ahead int64) (Log, error) {
	f, err := createPath(name)
	if err != nil {
		return nil, base.Classify(err)
	}
	return newLog(f, ahead, o.PlainLog), nil
}

// Open opens a regular file.
func (o OS) Open(name string) (ReadFile, error) {
	r, err := openPath(name)
	if err != nil {
		return nil, base.Classify(err)
	}
	r.anywhere = o.MapAnywhere
	return r, nil
}

// Remove removes a file or an empty directory.
func (OS) Remove(name string) error { return base.Classify(os.Remove(name)) }

// Rename replaces newName.
func (OS) Rename(oldName, newName string) error {
	return base.Classify(os.Rename(oldName, newName))
}

// MkdirAll makes dir and its parents.
func (OS) MkdirAll(dir string) error { return base.Classify(os.MkdirAll(dir, 0o700)) }

// List returns the names in dir.
func (OS) List(dir string) ([]string, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, base.Classify(err)
	}
	names, err := d.Readdirnames(-1)
	if err := cmp.Or(err, closeFile(d)); err != nil {
		return nil, base.Classify(err)
	}
	sort.Strings(names)
	return names, nil
}

// Stat is lstat.
func (OS) Stat(name string) (fs.FileInfo, error) { return typed(os.Lstat(name)) }

// SyncDir syncs a directory where the system can.
func (OS) SyncDir(dir string) error { return base.Classify(syncDir(dir)) }

// Lock takes an exclusive lock. Where the directory is not writable it fails
// with an error for which errors.Is(err, fs.ErrPermission) or syscall.EROFS
// holds, unless the lock file is there and may be written.
func (OS) Lock(name string) (io.Closer, error) { return typed(lockPath(name, false)) }

// LockShared takes a lock that others may share, of an existing file. Permission to read is enough.
func (OS) LockShared(name string) (io.Closer, error) { return typed(lockPath(name, true)) }

// typed is a result whose error is classified.
func typed[T any](result T, err error) (T, error) { return result, base.Classify(err) }

type osReadFile struct {
	f      *os.File
	size   int64
	stored int64 // bound on the bytes that are not holes
	holes  bool
	closed func() // nil, or what comes after Close

	anywhere bool // OS.MapAnywhere
}

func (r *osReadFile) ReadAt(p []byte, off int64) (int, error) { return typed(r.f.ReadAt(p, off)) }
func (r *osReadFile) file() *os.File                          { return r.f }
func (r *osReadFile) Stored() int64                           { return r.stored }
func (r *osReadFile) Size() int64                             { return r.size }
func (r *osReadFile) Prefetch(off, n int64)                   { prefetch(r.f, off, n) }

func (r *osReadFile) Sync() error { return base.Classify(syncRead(r.f)) }

// Close closes the descriptor.
func (r *osReadFile) Close() error {
	err := closeFile(r.f)
	if r.closed != nil {
		r.closed()
	}
	return base.Classify(err)
}

// NextData skips a hole.
func (r *osReadFile) NextData(off int64) int64 {
	if !r.holes || off >= r.size {
		return off
	}
	return nextData(r.f, off, r.size)
}

// writeBackEvery is how many bytes a WriteFile gathers in the page cache
// before it asks the kernel to start writing them out.
const writeBackEvery = 2 << 20

type osWriteFile struct {
	f       *os.File
	off     int64
	started int64 // write-back was started for [0, started)
}

func newWriteFile(f *os.File) *osWriteFile { return &osWriteFile{f: f} }

func (w *osWriteFile) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.off += int64(n)
	if err == nil && w.off-w.started >= writeBackEvery {
		startWriteBack(w.f, w.started, w.off-w.started)
		w.started = w.off
	}
	return n, base.Classify(err)
}

// StartSync starts the write-back of what Write has not.
func (w *osWriteFile) StartSync() error {
	if w.off > w.started {
		startWriteBack(w.f, w.started, w.off-w.started)
		w.started = w.off
	}
	return nil
}

func (w *osWriteFile) file() *os.File { return w.f }

func (l *osLog) file() *os.File { return l.f }

// Sync and Close may be the first to tell a shortage, as those of NFS are.
func (w *osWriteFile) Sync() error  { return base.Classify(syncFile(w.f)) }
func (w *osWriteFile) Close() error { return base.Classify(closeFile(w.f)) }

// closeFile closes f. EINTR is no failure: the descriptor is closed, and a second try could close
// another file with its number.
func closeFile(f *os.File) error { return closeError(f.Close()) }

func closeError(err error) error {
	if errors.Is(err, syscall.EINTR) {
		return nil
	}
	return err
}
