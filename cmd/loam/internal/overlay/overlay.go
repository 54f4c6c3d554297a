// Package overlay has a file system that shows another one and keeps all changes for itself, so
// that a repair can be tried.
package overlay

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/loamdb/loam/lsm"
)

// FS shows another file system: new files lie in a folder for temporary files, and renames and
// removals are only noted. It is safe for concurrent use.
type FS struct {
	under lsm.FS
	ctx   context.Context // all calls fail when it is done
	temp  string

	mu    sync.Mutex
	files map[string]string // name -> where the file really is
	dirs  map[string]bool   // directories made
	gone  map[string]bool   // names that under has and this one does not
	made  int
}

// New returns an FS over under with new files in the folder temp. Every call of it fails when
// ctx is done.
func New(ctx context.Context, under lsm.FS, temp string) *FS {
	return &FS{under: under, ctx: ctx, temp: temp, files: map[string]string{},
		dirs: map[string]bool{}, gone: map[string]bool{}}
}

// find is where a file is that is no new directory. mu is held.
func (o *FS) find(op, name string) (string, error) {
	if err := o.ctx.Err(); err != nil {
		return "", err
	}
	if real, ok := o.files[name]; ok {
		return real, nil
	}
	for n := name; ; n = filepath.Dir(n) {
		if o.gone[n] {
			return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		if n == filepath.Dir(n) {
			return name, nil
		}
	}
}

// create chooses where a new file is. mu is held.
func (o *FS) create(name string) (string, error) {
	real, err := o.find("open", name)
	if err == nil {
		_, err = o.under.Stat(real)
		if err == nil || o.dirs[name] {
			return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	o.made++
	real = filepath.Join(o.temp, strconv.Itoa(o.made))
	o.files[name] = real
	return real, nil
}

// Create makes a new file in the folder for temporary files.
func (o *FS) Create(name string) (lsm.WriteFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.create(name)
	if err != nil {
		return nil, err
	}
	return o.under.Create(real)
}

// CreateLog is Create for a log.
func (o *FS) CreateLog(name string, ahead int64) (lsm.LogFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.create(name)
	if err != nil {
		return nil, err
	}
	return o.under.CreateLog(real, ahead)
}

// Open opens a file for reading.
func (o *FS) Open(name string) (lsm.ReadFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.find("open", name)
	if err != nil {
		return nil, err
	}
	return o.under.Open(real)
}

// Remove notes that a name is gone.
func (o *FS) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dirs[name] {
		delete(o.dirs, name)
		return nil
	}
	real, err := o.find("remove", name)
	if err != nil {
		return err
	}
	if _, err := o.under.Stat(real); err != nil {
		return err
	}
	delete(o.files, name)
	o.gone[name] = true
	return nil
}

// Rename notes that a file or directory has another name.
func (o *FS) Rename(oldName, newName string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.find("rename", oldName)
	if err != nil && !o.dirs[oldName] {
		return err
	}
	isDir := o.dirs[oldName]
	if !isDir {
		info, err := o.under.Stat(real)
		if err != nil {
			return err
		}
		isDir = info.IsDir()
	}
	if !isDir {
		o.files[newName] = real
		delete(o.files, oldName)
		o.gone[oldName] = true
		delete(o.gone, newName)
		return nil
	}
	names, err := o.list(oldName)
	if err != nil {
		return err
	}
	for _, name := range names {
		old := filepath.Join(oldName, name)
		if real, err = o.find("rename", old); err != nil {
			return err
		}
		delete(o.files, old)
		o.files[filepath.Join(newName, name)] = real
	}
	delete(o.dirs, oldName)
	o.gone[oldName] = true
	o.dirs[newName] = true
	return nil
}

// MkdirAll notes a directory.
func (o *FS) MkdirAll(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.stat(dir); err == nil {
		return nil
	}
	o.dirs[dir] = true
	return o.ctx.Err()
}

// List returns the names in a directory, sorted.
func (o *FS) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list(dir)
}

func (o *FS) list(dir string) ([]string, error) {
	var names []string
	real, err := o.find("open", dir)
	if err == nil {
		names, err = o.under.List(real)
	}
	if err != nil && !(o.dirs[dir] && errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return o.gone[filepath.Join(dir, name)]
	})
	add := func(path string) {
		if filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	for path := range o.files {
		add(path)
	}
	for path := range o.dirs {
		add(path)
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names), nil
}

// Stat describes a file.
func (o *FS) Stat(name string) (fs.FileInfo, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stat(name)
}

func (o *FS) stat(name string) (fs.FileInfo, error) {
	if o.dirs[name] {
		return o.under.Stat(o.temp)
	}
	real, err := o.find("stat", name)
	if err != nil {
		return nil, err
	}
	return o.under.Stat(real)
}

// SyncDir does nothing.
func (o *FS) SyncDir(string) error { return o.ctx.Err() }

// Lock takes a lock that readers share, if there is a file to lock: a database that a process has
// open for writing is not for repair.
func (o *FS) Lock(name string) (io.Closer, error) {
	shared, ok := o.under.(interface {
		LockShared(name string) (io.Closer, error)
	})
	if _, err := o.under.Stat(name); err != nil || !ok {
		return io.NopCloser(nil), nil
	}
	return shared.LockShared(name)
}
