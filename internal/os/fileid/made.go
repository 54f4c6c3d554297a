package fileid

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Made is a file system that remembers the files that were made through it: their size, and their
// ID as of the open file, not of its name. So a file that another program removed, replaced or cut
// is noticed, also one that was replaced before its maker closed it. Where the operating system has
// no IDs, or the file system below gives no descriptors, sizes are compared alone.
type Made struct {
	vfs.FS
	mu    sync.Mutex // a leaf
	files map[string]*made
}

// made is one file.
type made struct {
	size  atomic.Int64
	id    ID
	known bool // id is
}

// Track returns a Made above fsys.
func Track(fsys vfs.FS) *Made { return &Made{FS: fsys, files: make(map[string]*made)} }

// Below is the file system whose calls it repeats, see vfs.Absolute.
func (m *Made) Below() vfs.FS { return m.FS }

func (m *Made) note(name string, f *made) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[filepath.Clean(name)] = f
}

// Create makes a new file.
func (m *Made) Create(name string) (vfs.WriteFile, error) {
	w, err := m.FS.Create(name)
	if err != nil {
		return nil, err
	}
	f := &made{}
	f.id, f.known = ofOpen(w)
	m.note(name, f)
	return &madeFile{w, f}, nil
}

// CreateLog makes a new log.
func (m *Made) CreateLog(name string, ahead int64) (vfs.Log, error) {
	l, err := m.FS.CreateLog(name, ahead)
	if err != nil {
		return nil, err
	}
	f := &made{}
	f.id, f.known = ofOpen(l)
	m.note(name, f)
	return &madeLog{l, f}, nil
}

// Link gives a file a second name, if the FS below can. Its size is compared once Sized says it.
func (m *Made) Link(oldName, newName string) error {
	info, err := m.FS.Stat(oldName)
	if err == nil {
		err = vfs.Link(m.FS, oldName, newName)
	}
	if err != nil {
		return err
	}
	f := &made{}
	f.id, f.known = Of(info)
	m.note(newName, f)
	return nil
}

// Rename gives a file or directory another name.
func (m *Made) Rename(oldName, newName string) error {
	err := m.FS.Rename(oldName, newName)
	if err == nil {
		m.renamed(oldName, newName)
	}
	return err
}

// Moved reports whether a Rename that failed had its effect: the old name is gone, and each file
// that was made under it has its new name.
func (m *Made) Moved(oldName, newName string) bool {
	if _, err := m.FS.Stat(oldName); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	files := m.below(oldName)
	for name, f := range files {
		rest, _ := within(name, oldName)
		if _, err := f.check(m.FS, newName+rest); err != nil {
			return false
		}
	}
	m.renamed(oldName, newName)
	return len(files) > 0
}

func (m *Made) renamed(oldName, newName string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	for _, name := range slices.Collect(maps.Keys(m.files)) {
		if rest, ok := within(name, oldName); ok {
			f := m.files[name]
			delete(m.files, name)
			m.files[newName+rest] = f
		}
	}
}

// Remove deletes a file or an empty directory.
func (m *Made) Remove(name string) error {
	err := m.FS.Remove(name)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.files, filepath.Clean(name))
	}
	return err
}

// Sized says how many bytes a file has at least that was made.
func (m *Made) Sized(name string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.files[filepath.Clean(name)]; f != nil {
		f.size.Store(size)
	}
}

// Note remembers a file that was made otherwise.
func (m *Made) Note(name string, info fs.FileInfo) {
	f := &made{}
	f.size.Store(info.Size())
	f.id, f.known = Of(info)
	m.note(name, f)
}

// within reports whether a name is dir, or that of something below it, and returns the rest.
func within(name, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, dir)
	return rest, ok && (rest == "" || rest[0] == filepath.Separator)
}

// Check looks in fsys at every file that was made at path or below it, and fails with
// base.ErrDirectoryChanged, naming the file, where one is missing, is another one or is too short.
func (m *Made) Check(fsys vfs.FS, path string) error {
	for name, f := range m.below(path) {
		if _, err := f.check(fsys, name); err != nil {
			return err
		}
	}
	return nil
}

// Intact lists the files made at path or below it that are as they were made.
func (m *Made) Intact(fsys vfs.FS, path string) (names []string) {
	for name, f := range m.below(path) {
		if _, err := f.check(fsys, name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Own lists the files made at path or below it of which the name does not lead to another file.
func (m *Made) Own(fsys vfs.FS, path string) (names []string) {
	for name, f := range m.below(path) {
		if own, _ := f.check(fsys, name); own {
			names = append(names, name)
		}
	}
	return names
}

// below has the files made at path or below it, by their names.
func (m *Made) below(path string) map[string]*made {
	path = filepath.Clean(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.files[path]; f != nil {
		return map[string]*made{path: f}
	}
	files := maps.Clone(m.files)
	maps.DeleteFunc(files, func(name string, _ *made) bool {
		_, ok := within(name, path)
		return !ok
	})
	return files
}

// check fails if the file of a name is not as it was made. own is false where it is another one.
func (f *made) check(fsys vfs.FS, name string) (own bool, err error) {
	info, err := fsys.Stat(name)
	switch {
	case err != nil && !absent(err):
		return true, err
	case err == nil && info.Mode().IsRegular():
		id, ok := Of(info)
		if own = !ok || !f.known || id == f.id || !Steady(fsys, name, id); own &&
			info.Size() >= f.size.Load() {
			return true, nil
		}
	}
	return own, &fs.PathError{Op: "check", Path: name, Err: base.ErrDirectoryChanged}
}

// madeFile counts the bytes of a file.
type madeFile struct {
	vfs.WriteFile
	f *made
}

func (w *madeFile) Write(p []byte) (int, error) {
	n, err := w.WriteFile.Write(p)
	w.f.size.Add(int64(n))
	return n, err
}

// Unwrap is the file below, see vfs.Descriptor.
func (w *madeFile) Unwrap() vfs.WriteFile { return w.WriteFile }

// StartSync is that of the file below, if it can.
func (w *madeFile) StartSync() error { return vfs.StartSync(w.WriteFile) }

// Abandon is that of the file below, if it can.
func (w *madeFile) Abandon() error { return vfs.Abandon(w.WriteFile) }

// madeLog counts the bytes of a log.
type madeLog struct {
	vfs.Log
	f *made
}

func (l *madeLog) Append(p []byte) error {
	err := l.Log.Append(p)
	if err == nil {
		l.f.size.Add(int64(len(p)))
	}
	return err
}

func (l *madeLog) Truncate(size int64) error {
	err := l.Log.Truncate(size)
	if err == nil {
		l.f.size.Store(size)
	}
	return err
}
