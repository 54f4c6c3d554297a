//go:build unix

package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
)

// fileID tells files apart whatever the path they are reached by.
type fileID struct{ dev, ino uint64 }

// held is the table of the locks that this process holds. Its mutex is kept
// through a whole Lock, so that no second descriptor of a held file is ever
// opened: closing one would drop a classic fcntl lock.
var held struct {
	sync.Mutex
	files map[fileID]struct{}
}

type osLock struct {
	f    *os.File
	id   fileID
	once sync.Once
	err  error
}

func lockFile(name string) (io.Closer, error) {
	held.Lock()
	defer held.Unlock()
	l, err := lockHeld(name)
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return l, nil
}

// lockHeld takes the lock; held must be locked. It starts anew when the file
// was removed or replaced in between, as a process that destroys a database
// does.
func lockHeld(name string) (*osLock, error) {
	for range 100 {
		if id, err := lstatID(name); err == nil {
			if _, taken := held.files[id]; taken {
				return nil, errLockedHere
			}
		}
		l, err := lockOnce(name)
		if err != nil {
			return nil, err
		}
		if id, err := lstatID(name); err == nil && id == l.id {
			if held.files == nil {
				held.files = make(map[fileID]struct{})
			}
			held.files[id] = struct{}{}
			return l, nil
		}
		l.f.Close()
	}
	return nil, base.ErrLocked
}

func lockOnce(name string) (*osLock, error) {
	fd, err := openRetry(name, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		if isIrregular(name) {
			err = ErrNotRegular
		}
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err == nil {
		err = takeLocks(fd)
	}
	if err != nil {
		unix.Close(fd)
		if err == unix.EAGAIN || err == unix.EACCES {
			err = base.ErrLocked
		}
		return nil, err
	}
	return &osLock{f: os.NewFile(uintptr(fd), name), id: statID(&st)}, nil
}

func lstatID(name string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return fileID{}, err
	}
	return statID(&st), nil
}

func statID(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), uint64(st.Ino)} }

// Close releases the lock. The locks are undone before the descriptor is
// closed: a forked child may still hold a copy of it.
func (l *osLock) Close() error {
	l.once.Do(func() {
		held.Lock()
		defer held.Unlock()
		delete(held.files, l.id)
		dropLocks(int(l.f.Fd()))
		l.err = l.f.Close()
	})
	return l.err
}

// flock is flock(2), again when a signal interrupts it.
func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
