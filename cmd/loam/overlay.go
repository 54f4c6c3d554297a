package main

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

// overlay is a file system that shows another one and keeps all changes for itself: new files lie
// in a folder for temporary files, and renames and removals are only noted.
type overlay struct {
	under lsm.FS
	ctx   context.Context // all calls fail when it is done
	temp  string

	mu    sync.Mutex
	files map[string]string // name -> where the file really is
	dirs  map[string]bool   // directories made
	gone  map[string]bool   // names that under has and this one does not
	made  int
}

func newOverlay(ctx context.Context, under lsm.FS, temp string) *overlay {
	return &overlay{under: under, ctx: ctx, temp: temp, files: map[string]string{},
		dirs: map[string]bool{}, gone: map[string]bool{}}
}

// find is where a file is that is no new directory. mu is held.
func (o *overlay) find(op, name string) (string, error) {
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
func (o *overlay) create(name string) (string, error) {
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

func (o *overlay) Create(name string) (lsm.WriteFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.create(name)
	if err != nil {
		return nil, err
	}
	return o.under.Create(real)
}

func (o *overlay) CreateLog(name string, ahead int64) (lsm.LogFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.create(name)
	if err != nil {
		return nil, err
	}
	return o.under.CreateLog(real, ahead)
}

func (o *overlay) Open(name string) (lsm.ReadFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	real, err := o.find("open", name)
	if err != nil {
		return nil, err
	}
	return o.under.Open(real)
}

func (o *overlay) Remove(name string) error {
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

func (o *overlay) Rename(oldName, newName string) error {
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

func (o *overlay) MkdirAll(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.stat(dir); err == nil {
		return nil
	}
	o.dirs[dir] = true
	return o.ctx.Err()
}

func (o *overlay) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list(dir)
}

func (o *overlay) list(dir string) ([]string, error) {
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

func (o *overlay) Stat(name string) (fs.FileInfo, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stat(name)
}

func (o *overlay) stat(name string) (fs.FileInfo, error) {
	if o.dirs[name] {
		return o.under.Stat(o.temp)
	}
	real, err := o.find("stat", name)
	if err != nil {
		return nil, err
	}
	return o.under.Stat(real)
}

func (o *overlay) SyncDir(string) error { return o.ctx.Err() }

// Lock takes a lock that readers share, if there is a file to lock: a database that a process has
// open for writing is not for repair.
func (o *overlay) Lock(name string) (io.Closer, error) {
	shared, ok := o.under.(interface {
		LockShared(name string) (io.Closer, error)
	})
	if _, err := o.under.Stat(name); err != nil || !ok {
		return io.NopCloser(nil), nil
	}
	return shared.LockShared(name)
}
