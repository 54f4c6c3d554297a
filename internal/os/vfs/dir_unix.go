//go:build unix

package vfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// heldDir is the operating system's file system with one directory held open:
// names below path are resolved from the descriptor, and no link on the way is
// followed. Other names mean what they mean in outer. While it holds a lock, every
// change in its directory checks that LOCK and the files being written there are still
// what their names lead to. If not, another program replaced the directory's files,
// and nothing is created, renamed or removed in the directory any more. A change of
// another directory asks that directory's heldDir, if it has one, and no other.
type heldDir struct {
	OS
	path  string
	outer *heldDir // nil: the operating system

	mu   sync.RWMutex // held for reading while fd is used; before outer.mu
	fd   int          // -1 after Close
	lock *lockedFile  // exclusive; nil: none

	writing struct {
		sync.Mutex
		files map[string]*linked // by name: created here and not closed yet
	}
}

// linked tells why a file that is being written may have no name any more.
type linked struct {
	in      *heldDir // of the directory that the file was created in
	name    string   // under which the file was created; for errors
	f       *os.File // open as long as in.writing has the file
	id      filelock.ID
	counted bool // the file system counts the names of files
	removed bool // by this heldDir; guarded by in.writing
}

func (o OS) hold(dir string) (FS, io.Closer, error) { return holdDir(o, nil, dir) }

// hold holds another directory, with a lock of its own. Names below h.path go on to
// mean the files of the directory that h holds.
func (h *heldDir) hold(dir string) (FS, io.Closer, error) { return holdDir(h.OS, h, dir) }

func holdDir(o OS, outer *heldDir, dir string) (FS, io.Closer, error) {
	fd, err := openDirFD(dir)
	if err != nil {
		return nil, nil, base.Classify(err)
	}
	h := &heldDir{OS: o, path: filepath.Clean(dir), outer: outer, fd: fd}
	return h, h, nil
}

// rlock keeps the descriptors of h and of all outer ones open until runlock.
func (h *heldDir) rlock() {
	for ; h != nil; h = h.outer {
		h.mu.RLock()
	}
}

func (h *heldDir) runlock() {
	for ; h != nil; h = h.outer {
		h.mu.RUnlock()
	}
}

// Close gives the directory up. Calls under way end first.
func (h *heldDir) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fd < 0 {
		return nil
	}
	err := base.Classify(closeError(unix.Close(h.fd)))
	h.fd = -1
	return err
}

// place is where a name is resolved from: a directory's descriptor and the
// last element.
type place struct {
	fd    int
	elem  string
	owned bool     // fd is closed by done
	in    *heldDir // the held directory that has the name; nil: none has, fd is AT_FDCWD
}

func (p *place) done() {
	if p.owned {
		unix.Close(p.fd)
	}
}

// at resolves a name. The locks of rlock are held.
func (h *heldDir) at(op, name string) (place, error) {
	rest, ok := strings.CutPrefix(name, h.path)
	if ok && rest == "" {
		rest = "/."
	}
	switch {
	case ok && (rest[0] == '/' || h.path == "/"):
	case h.outer != nil:
		return h.outer.at(op, name)
	default:
		return place{fd: unix.AT_FDCWD, elem: name}, nil
	}
	if h.fd < 0 {
		return place{}, pathError(op, name, fs.ErrClosed)
	}
	p := place{fd: h.fd, elem: strings.TrimLeft(rest, "/"), in: h}
	for {
		dir, elem, more := strings.Cut(p.elem, "/")
		if !more {
			return p, nil
		}
		fd, err := openAt(p.fd, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		p.done()
		if err != nil {
			return place{}, pathError(op, name, err)
		}
		p = place{fd: fd, elem: elem, owned: true, in: h}
	}
}

// do resolves a name and runs f with it.
func (h *heldDir) do(op, name string, f func(p place) error) error {
	h.rlock()
	defer h.runlock()
	p, err := h.at(op, name)
	if err != nil {
		return base.Classify(err)
	}
	defer p.done()
	return base.Classify(f(p))
}

// change is do for what alters a directory: for one held with a lock, only while LOCK is the locked
// file.
func (h *heldDir) change(op, name string, f func(p place) error) error {
	return h.do(op, name, func(p place) error {
		if err := p.in.changeable(); err != nil {
			return pathError(op, name, err)
		}
		return f(p)
	})
}

// changeable fails when nothing may be changed in h, which may be nil.
func (h *heldDir) changeable() error {
	if h == nil || h.lock == nil {
		return nil
	}
	return h.intact()
}

// intact fails with base.ErrDirectoryChanged unless LOCK and the files being written
// stand under their names, and with another error where the system cannot tell. It
// needs no descriptor. h.mu is held for reading.
func (h *heldDir) intact() error {
	if err := h.lock.still(h.fd); err != nil {
		return err
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	for name, l := range h.writing.files {
		if l.removed {
			continue
		}
		elem := strings.TrimLeft(strings.TrimPrefix(name, h.path), "/")
		if err := l.id.Still(h.fd, elem, l.f); err != nil {
			return err
		}
	}
	return nil
}

// create makes a file. l is nil for one that is in no directory that is held.
func (h *heldDir) create(name string) (f *os.File, l *linked, err error) {
	var in *heldDir
	err = h.change("create", name, func(p place) (err error) {
		in = p.in
		f, err = createFile(p.fd, p.elem, name)
		return err
	})
	if err != nil || in == nil {
		return f, nil, err
	}
	l, err = in.register(f, name)
	return f, l, err
}

// register notes that a file of h is being written. If that fails, the file is closed.
func (h *heldDir) register(f *os.File, name string) (*linked, error) {
	var st unix.Stat_t
	if err := filelock.Stat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, base.Classify(pathError("create", name, err))
	}
	l := &linked{in: h, name: name, f: f, id: filelock.IDOf(&st), counted: st.Nlink > 0}
	h.writing.Lock()
	if h.writing.files == nil {
		h.writing.files = make(map[string]*linked)
	}
	h.writing.files[name] = l
	h.writing.Unlock()
	return l, nil
}

// still fails when the file of fd has no name any more and its heldDir
// did not remove it: what was synced will not be found again.
func (l *linked) still(fd int) error {
	var st unix.Stat_t
	if err := filelock.Stat(fd, &st); err != nil || st.Nlink > 0 || !l.counted {
		return base.Classify(pathError("sync", l.name, err))
	}
	l.in.writing.Lock()
	defer l.in.writing.Unlock()
	if l.removed {
		return nil
	}
	return pathError("sync", l.name, base.ErrDirectoryChanged)
}

// mark records whether a file that is being written is one that this heldDir
// removed. h may be nil.
func (h *heldDir) mark(name string, removed bool) {
	if h == nil {
		return
	}
	h.writing.Lock()
	if l := h.writing.files[name]; l != nil {
		l.removed = removed
	}
	h.writing.Unlock()
}

// closed forgets a file, which may have been renamed.
func (l *linked) closed() {
	l.in.writing.Lock()
	maps.DeleteFunc(l.in.writing.files, func(_ string, other *linked) bool { return other == l })
	l.in.writing.Unlock()
}

func (h *heldDir) Create(name string) (WriteFile, error) {
	f, l, err := h.create(name)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return newWriteFile(f), nil
	}
	return &heldWriteFile{newWriteFile(f), l}, nil
}

type heldWriteFile struct {
	*osWriteFile
	l *linked
}

func (w *heldWriteFile) Sync() error {
	if err := w.osWriteFile.Sync(); err != nil {
		return err
	}
	return w.l.still(int(w.f.Fd()))
}

func (w *heldWriteFile) Close() error {
	w.l.closed()
	return w.osWriteFile.Close()
}

func (h *heldDir) CreateLog(name string, ahead int64) (Log, error) {
	f, l, err := h.create(name)
	if err != nil {
		return nil, err
	}
	log := newLog(f, ahead, h.PlainLog)
	if l == nil {
		return log, nil
	}
	return &heldLog{log, f, l}, nil
}

type heldLog struct {
	*osLog
	f *os.File
	l *linked
}

func (l *heldLog) Sync() error {
	if err := l.osLog.Sync(); err != nil {
		return err
	}
	return l.l.still(int(l.f.Fd()))
}

func (l *heldLog) Close() error {
	l.l.closed()
	return l.osLog.Close()
}

func (h *heldDir) Open(name string) (r ReadFile, err error) {
	err = h.do("open", name, func(p place) error {
		f, err := openFile(p.fd, p.elem, name)
		if err == nil {
			f.anywhere = h.MapAnywhere
			r = f
		}
		return err
	})
	return r, err
}

func unlinkAt(dir int, elem string, flags int) error {
	return filelock.Again(func() error { return unix.Unlinkat(dir, elem, flags) })
}

// Remove removes a file or an empty directory.
func (h *heldDir) Remove(name string) error {
	return h.change("remove", name, func(p place) error {
		if p.in == nil {
			return os.Remove(name)
		}
		p.in.mark(name, true) // before linked.still can look
		err := unlinkAt(p.fd, p.elem, 0)
		if err == unix.EISDIR || err == unix.EPERM { // of a directory: on Linux, elsewhere
			if rmdir := unlinkAt(p.fd, p.elem, unix.AT_REMOVEDIR); rmdir != unix.ENOTDIR {
				err = rmdir
			}
		}
		if err != nil {
			p.in.mark(name, false)
		}
		return pathError("remove", name, err)
	})
}

func (h *heldDir) Rename(oldName, newName string) error {
	return h.change("rename", oldName, func(from place) error {
		to, err := h.at("rename", newName)
		if err != nil {
			return err
		}
		defer to.done()
		if to.in != from.in {
			if err := to.in.changeable(); err != nil {
				return pathError("rename", newName, err)
			}
		}
		if from.in != nil {
			from.in.writing.Lock()
			defer from.in.writing.Unlock()
		}
		err = filelock.Again(func() error {
			return unix.Renameat(from.fd, from.elem, to.fd, to.elem)
		})
		if err == nil && from.in != nil {
			from.in.renamed(oldName, newName, from.in == to.in)
		}
		return pathError("rename", oldName, err)
	})
}

// renamed gives a file that is being written its new name, or forgets it when it leaves
// the directory. h.writing is locked.
func (h *heldDir) renamed(oldName, newName string, stays bool) {
	l := h.writing.files[oldName]
	if l == nil {
		return
	}
	delete(h.writing.files, oldName)
	if stays {
		h.writing.files[newName] = l
	}
}

// MkdirAll makes one directory, within the one that is held.
func (h *heldDir) MkdirAll(dir string) error {
	return h.change("mkdir", dir, func(p place) error {
		if p.in == nil {
			return h.OS.MkdirAll(dir)
		}
		if p.elem == "." {
			return nil
		}
		err := filelock.Again(func() error { return unix.Mkdirat(p.fd, p.elem, 0o700) })
		if err == unix.EEXIST {
			if st, err := statAt(p.fd, p.elem); err == nil && st.IsDir() {
				return nil
			}
		}
		return pathError("mkdir", dir, err)
	})
}

// open opens a directory at or below the one that is held; a link is refused.
func (h *heldDir) open(op, dir string, f func(d *os.File) error) error {
	return h.do(op, dir, func(p place) error {
		if p.in == nil {
			d, err := openDir(dir)
			if err != nil {
				return err
			}
			defer d.Close()
			return f(d)
		}
		fd, err := openAt(p.fd, p.elem, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return pathError(op, dir, err)
		}
		d := os.NewFile(uintptr(fd), dir)
		defer d.Close()
		return f(d)
	})
}

func (h *heldDir) List(dir string) (names []string, err error) {
	err = h.open("list", dir, func(d *os.File) (err error) {
		names, err = d.Readdirnames(-1)
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	return names, nil
}

// SyncDir needs no descriptor more for the directory that is held: it works
// when the process has none left.
func (h *heldDir) SyncDir(dir string) error {
	h.mu.RLock()
	if dir == h.path && h.fd >= 0 {
		defer h.mu.RUnlock()
		return base.Classify(pathError("sync", dir, syncDirFD(h.fd)))
	}
	h.mu.RUnlock()
	return h.open("sync", dir, func(d *os.File) error {
		return pathError("sync", dir, syncDirFD(int(d.Fd())))
	})
}

func (h *heldDir) Stat(name string) (info fs.FileInfo, err error) {
	err = h.do("stat", name, func(p place) error {
		st, err := statAt(p.fd, p.elem)
		if err == nil {
			info = st
		}
		return pathError("stat", name, err)
	})
	return info, err
}

// Lock takes the exclusive lock. While that of h.path is held, changes there ask for it;
// a lock elsewhere is nothing to h.
func (h *heldDir) Lock(name string) (c io.Closer, err error) {
	var l *osLock
	err = h.do("lock", name, func(p place) (err error) {
		l, err = lockFile(p.fd, p.elem, name, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	if name != filepath.Join(h.path, base.LockName) {
		return l, nil
	}
	h.mu.Lock()
	h.lock = l.file
	h.mu.Unlock()
	return &heldDirLock{l, h}, nil
}

type heldDirLock struct {
	*osLock
	h *heldDir
}

func (l *heldDirLock) Close() error {
	l.h.mu.Lock()
	l.h.lock = nil
	l.h.mu.Unlock()
	return l.osLock.Close()
}

func (h *heldDir) LockShared(name string) (c io.Closer, err error) {
	err = h.do("lock", name, func(p place) error {
		l, err := lockFile(p.fd, p.elem, name, true)
		if err == nil {
			c = l
		}
		return err
	})
	return c, err
}

// statAt is lstat.
func statAt(dir int, elem string) (*statInfo, error) {
	var st unix.Stat_t
	if err := filelock.Lstat(dir, elem, &st); err != nil {
		return nil, err
	}
	return &statInfo{name: filepath.Base(elem), st: st}, nil
}

// statInfo is a fs.FileInfo.
type statInfo struct {
	name string
	st   unix.Stat_t
}

func (i *statInfo) Name() string       { return i.name }
func (i *statInfo) Size() int64        { return i.st.Size }
func (i *statInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i *statInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *statInfo) Sys() any           { return &i.st }

func (i *statInfo) Mode() fs.FileMode {
	mode := fs.FileMode(i.st.Mode & 0o777)
	switch i.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}
