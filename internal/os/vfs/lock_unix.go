//go:build unix

package vfs

import (
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// fileID tells files apart whatever the path they are reached by.
type fileID struct{ dev, ino uint64 }

// held is the table of the locks that this process holds. Its mutex is kept
// through a whole Lock, so that no second descriptor of a held file is opened
// there: closing one drops a classic fcntl lock.
var held struct {
	sync.Mutex
	files map[fileID]*lockedFile
}

// lockedFile is a file that this process has locked, once for all its users.
type lockedFile struct {
	id     fileID
	elem   string // last element of its name
	shared bool
	f      *os.File
	users  int  // guarded by held
	whole  bool // every lock that filelock.Take knows is held; guarded by held
}

// osLock is one user's hold on a lockedFile.
type osLock struct {
	file *lockedFile
	once sync.Once
	err  error
}

// lockFile takes the lock of elem, seen from the directory dir. name is for
// errors. A shared lock is of a file that exists.
func lockFile(dir int, elem, name string, shared bool) (*osLock, error) {
	held.Lock()
	defer held.Unlock()
	l, err := lockHeld(dir, elem, name, shared)
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	l.users++
	return &osLock{file: l}, nil
}

// lockHeld takes the lock; held must be locked. It starts anew when the file
// was removed or replaced in between, as a process that destroys a database
// does.
func lockHeld(dir int, elem, name string, shared bool) (*lockedFile, error) {
	for range 100 {
		if id, err := lstatID(dir, elem); err == nil {
			if l := held.files[id]; l != nil {
				if l.shared && shared {
					return l, nil
				}
				return nil, errLockedHere
			}
		}
		l, err := lockOnce(dir, elem, name, shared)
		if err != nil {
			return nil, err
		}
		if id, err := lstatID(dir, elem); err == nil && id == l.id {
			if held.files == nil {
				held.files = make(map[fileID]*lockedFile)
			}
			held.files[id] = l
			return l, nil
		}
		l.f.Close()
	}
	return nil, base.ErrLocked
}

func lockOnce(dir int, elem, name string, shared bool) (*lockedFile, error) {
	flags := unix.O_RDWR | unix.O_CREAT
	if shared {
		flags = unix.O_RDONLY
	}
	fd, err := openAt(dir, elem, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		if isIrregular(dir, elem) {
			err = ErrNotRegular
		}
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	whole := false
	if err == nil {
		err = unix.SetNonblock(fd, false) // see openDirFD
	}
	if err == nil {
		whole, err = filelock.Take(fd, shared)
	}
	if err == unix.EAGAIN || err == unix.EACCES {
		err = lockedBy(filelock.Holder(fd))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &lockedFile{id: statID(&st), elem: elem, shared: shared,
		f: os.NewFile(uintptr(fd), name), whole: whole}, nil
}

func lstatID(dir int, elem string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, elem, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fileID{}, err
	}
	return statID(&st), nil
}

func statID(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), uint64(st.Ino)} }

// still fails with base.ErrDirectoryChanged unless the directory has this file under
// its name, and takes again what of the lock may have been lost.
func (l *lockedFile) still(dir int) error {
	id, err := lstatID(dir, l.elem)
	if err != nil {
		return changed(err)
	}
	held.Lock()
	defer held.Unlock()
	if id != l.id || !l.renew() {
		return base.ErrDirectoryChanged
	}
	return nil
}

// renew takes again what of the lock may be lost: a classic fcntl lock goes
// when anything in the process closes a descriptor of the file. held is locked.
func (l *lockedFile) renew() bool {
	if held.files[l.id] != l {
		return false
	}
	whole, err := filelock.Renew(int(l.f.Fd()), l.shared, l.whole)
	l.whole = whole
	return err == nil
}

// closesLock returns what must follow the closing of a descriptor of the file,
// nil when the file is not locked.
func closesLock(id fileID) func() {
	held.Lock()
	defer held.Unlock()
	if held.files[id] == nil {
		return nil
	}
	return func() {
		held.Lock()
		defer held.Unlock()
		if l := held.files[id]; l != nil {
			l.renew()
		}
	}
}

// Close releases the lock with its last user. The locks are undone before the
// descriptor is closed: a forked child may still hold a copy of it.
func (l *osLock) Close() error {
	l.once.Do(func() {
		held.Lock()
		defer held.Unlock()
		if l.file.users--; l.file.users > 0 {
			return
		}
		delete(held.files, l.file.id)
		filelock.Drop(int(l.file.f.Fd()))
		l.err = l.file.f.Close()
	})
	return l.err
}
