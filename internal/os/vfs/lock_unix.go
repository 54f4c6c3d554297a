//go:build unix

package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// held is the table of the locks that this process holds.
var held = struct {
	sync.Mutex
	files map[lockKey]*lockedFile
}{files: map[lockKey]*lockedFile{}}

// taking has, by device, a *sync.Mutex that is kept through a whole Lock, and Close: no second
// descriptor of a held file is opened there, as closing one drops a classic fcntl lock. The disk
// may be blocked, which is nothing to files of other devices.
var taking sync.Map

// lockKey is that of a locked file: its number, or its path where numbers tell nothing.
type lockKey struct {
	id   filelock.ID
	name string
}

// lockedFile is a file that this process has locked, once for all its users.
type lockedFile struct {
	key    lockKey
	id     filelock.ID // guarded by held
	elem   string      // last element of its name
	shared bool
	f      *os.File
	device *sync.Mutex   // in taking
	users  int           // guarded by device
	locks  filelock.Held // guarded by held
}

// osLock is one user's hold on a lockedFile.
type osLock struct {
	file *lockedFile
	once sync.Once
	err  error
}

// lockFile takes the lock of elem, seen from dir; name is for errors. A shared one needs a file.
func lockFile(dir int, elem, name string, shared bool) (*osLock, error) {
	var above unix.Stat_t // where that fails Lock does, too
	_ = filelock.Again(func() error { return unix.Fstatat(dir, filepath.Dir(elem), &above, 0) })
	mu, _ := taking.LoadOrStore(uint64(above.Dev), new(sync.Mutex))
	device := mu.(*sync.Mutex)
	device.Lock()
	defer device.Unlock()
	l, err := lockHeld(dir, elem, name, shared, filelock.IDOf(&above))
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	l.device = device
	l.users++
	return &osLock{file: l}, nil
}

// lockHeld takes the lock; its device must be locked. It starts anew when the file was removed or
// replaced in between, as a process that destroys a database does.
func lockHeld(dir int, elem, name string, shared bool, above filelock.ID) (*lockedFile, error) {
	for range 100 {
		if l := lookHeld(dir, elem, name); l != nil {
			if l.shared && shared {
				return l, nil
			}
			return nil, errLockedHere
		}
		l, err := lockOnce(dir, elem, name, shared)
		if err != nil {
			return nil, err
		}
		if err = l.id.Still(dir, elem, l.f); err == nil {
			l.key = keyOf(name, l, above)
			held.Lock()
			defer held.Unlock()
			held.files[l.key] = l
			return l, nil
		}
		l.f.Close()
		if err != base.ErrDirectoryChanged {
			return nil, err
		}
	}
	return nil, base.ErrLocked
}

// lookHeld finds the file of a name among those that are locked; nil: it is none of them.
func lookHeld(dir int, elem, name string) *lockedFile {
	var st unix.Stat_t
	err := filelock.Lstat(dir, elem, &st)
	held.Lock()
	defer held.Unlock()
	if l := held.files[lockKey{name: name}]; l != nil || err != nil {
		return l
	}
	return held.files[lockKey{id: filelock.IDOf(&st)}]
}

// keyOf is the key of a file that was locked just now: its path if the file has another number than
// a moment ago, or the number of its directory.
func keyOf(name string, l *lockedFile, above filelock.ID) lockKey {
	var file unix.Stat_t
	if filelock.Stat(int(l.f.Fd()), &file) != nil || filelock.IDOf(&file) != l.id ||
		above == l.id {
		return lockKey{name: name}
	}
	return lockKey{id: l.id}
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
	if err = filelock.Stat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	var locks filelock.Held
	if err == nil {
		err = unix.SetNonblock(fd, false) // see openDirFD
	}
	if err == nil {
		locks, err = filelock.Take(fd, shared)
	}
	if err == unix.EAGAIN || err == unix.EACCES {
		err = lockedBy(filelock.Holder(fd))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &lockedFile{id: filelock.IDOf(&st), elem: elem, shared: shared,
		f: os.NewFile(uintptr(fd), name), locks: locks}, nil
}

// still fails with base.ErrDirectoryChanged unless the directory has this file under
// its name, and takes again what of the lock may have been lost.
func (l *lockedFile) still(dir int) error {
	held.Lock()
	id := l.id
	held.Unlock()
	if err := id.Still(dir, l.elem, l.f); err != nil { // may wait for a disk
		return err
	}
	held.Lock()
	defer held.Unlock()
	l.id = id
	return l.renew()
}

// renew takes again what of the lock may be lost: a classic fcntl lock goes
// when anything in the process closes a descriptor of the file. It fails with
// base.ErrDirectoryChanged if another process has the lock. held is locked.
func (l *lockedFile) renew() error {
	if held.files[l.key] != l {
		return base.ErrDirectoryChanged
	}
	err := l.locks.Renew(int(l.f.Fd()), l.shared)
	if err == unix.EAGAIN || err == unix.EACCES {
		return base.ErrDirectoryChanged
	}
	return pathError("lock", l.f.Name(), err)
}

// closesLock returns what must follow the closing of a file's descriptor; nil: it is not locked.
func closesLock(id filelock.ID) func() {
	held.Lock()
	defer held.Unlock()
	key := lockKey{id: id}
	if held.files[key] == nil {
		return nil
	}
	return func() {
		held.Lock()
		defer held.Unlock()
		if l := held.files[key]; l != nil {
			_ = l.renew() // the next change asks again
		}
	}
}

// Close releases the lock with its last user. The locks are undone before the
// descriptor is closed: a forked child may still hold a copy of it.
func (l *osLock) Close() error {
	l.once.Do(func() {
		l.file.device.Lock()
		defer l.file.device.Unlock()
		if l.file.users--; l.file.users > 0 {
			return
		}
		held.Lock()
		delete(held.files, l.file.key)
		held.Unlock()
		filelock.Drop(int(l.file.f.Fd()))
		l.err = base.Classify(closeFile(l.file.f))
	})
	return l.err
}
