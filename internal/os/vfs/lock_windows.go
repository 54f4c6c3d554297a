package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/windows"
)

// osLock is a lock on the whole byte range of the file, as LevelDB takes it.
// It belongs to the handle, so a second Lock in this process meets it too.
type osLock struct {
	f    *os.File
	once sync.Once
	err  error
}

func lockPath(name string, shared bool) (io.Closer, error) {
	if st, err := os.Lstat(name); err == nil && !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrNotRegular}
	}
	flags, how := os.O_RDWR|os.O_CREATE, uint32(windows.LOCKFILE_EXCLUSIVE_LOCK|
		windows.LOCKFILE_FAIL_IMMEDIATELY)
	if shared {
		flags, how = os.O_RDONLY, windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	f, err := openShared(name, flags)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, math.MaxUint32, math.MaxUint32,
		new(windows.Overlapped))
	if err != nil {
		f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) ||
			errors.Is(err, windows.ERROR_IO_PENDING) {
			err = lockedBy(0)
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return &osLock{f: f}, nil
}

// Close releases the lock.
func (l *osLock) Close() error {
	l.once.Do(func() {
		h := windows.Handle(l.f.Fd())
		_ = windows.UnlockFileEx(h, 0, math.MaxUint32, math.MaxUint32, new(windows.Overlapped))
		l.err = l.f.Close()
	})
	return l.err
}
