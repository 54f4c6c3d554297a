package replicate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// incoming is the folder of a directory in which objects are written before they get their names.
const incoming = "incoming"

// unfinished begins the names of these files: what else is in a folder of that name is kept.
const unfinished = "loam-object-"

type dirTarget struct {
	fs   vfs.FS
	root string

	mu   sync.Mutex
	made map[string]bool // folders that are there, durably
}

// Dir is a Target that keeps objects as files below a directory, which need not exist; the one
// above it must. A nil fsys is the operating system's file system.
func Dir(dir string, fsys lsm.FS) (Target, error) {
	d := &dirTarget{fs: fsys, made: map[string]bool{}}
	if fsys == nil {
		d.fs = vfs.Default
	}
	root, err := vfs.Absolute(d.fs, dir)
	if err != nil {
		return nil, err
	}
	d.root = root
	return d, nil
}

func (d *dirTarget) path(name string) (string, error) {
	if name == "" || len(name) > 200 || path.Clean("/"+name) != "/"+name ||
		strings.ContainsAny(name, "\\:\x00") {
		return "", base.Invalidf("%q is no name of an object", name)
	}
	return filepath.Join(d.root, filepath.FromSlash(name)), nil
}

// Put writes the file under another name first, and syncs it and the folders that are new.
func (d *dirTarget) Put(ctx context.Context, name string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := d.path(name)
	if err != nil {
		return err
	}
	if err := d.mkdir(filepath.Join(d.root, incoming)); err != nil {
		return err
	}
	temp := filepath.Join(d.root, incoming, unfinished+rand.Text())
	if err = d.write(temp, data); err == nil {
		err = d.place(temp, to)
	}
	if err != nil {
		_ = d.fs.Remove(temp)
		d.mu.Lock()
		clear(d.made) // another program may have removed folders
		d.mu.Unlock()
		return err
	}
	return d.fs.SyncDir(filepath.Dir(to))
}

// place gives a file its name, in a folder that no Delete removes meanwhile.
func (d *dirTarget) place(temp, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mkdirLocked(filepath.Dir(to)); err != nil {
		return err
	}
	return d.fs.Rename(temp, to)
}

func (d *dirTarget) write(name string, data []byte) error {
	w, err := d.fs.Create(name)
	if err != nil {
		return err
	}
	if _, err = w.Write(data); err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

// mkdir makes a folder below the one above root, durably.
func (d *dirTarget) mkdir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mkdirLocked(dir)
}

// mkdirLocked is mkdir.
//
// REQUIRES: d.mu held.
func (d *dirTarget) mkdirLocked(dir string) error {
	if d.made[dir] {
		return nil
	}
	var err error
	above := filepath.Dir(dir)
	if dir != d.root {
		err = d.mkdirLocked(above)
	} else if _, err = d.fs.Stat(above); err != nil {
		return fmt.Errorf("the directory above the replica: %w", err)
	}
	if err == nil {
		err = d.fs.MkdirAll(dir)
	}
	if err == nil {
		err = d.fs.SyncDir(above) // also if it was there: its maker may have died before
	}
	d.made[dir] = err == nil
	return err
}

func (d *dirTarget) Get(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := d.path(name)
	if err != nil {
		return nil, err
	}
	r, err := d.fs.Open(file)
	if err != nil {
		return nil, err
	}
	if r.Size() > maxObject {
		return nil, errors.Join(damaged(name, "it has %d bytes, too many", r.Size()), r.Close())
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return b, errors.Join(err, r.Close())
}

// tidy removes what puts left that were cut off.
func (d *dirTarget) tidy() {
	names, err := d.fs.List(filepath.Join(d.root, incoming))
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, unfinished) {
			_ = d.fs.Remove(filepath.Join(d.root, incoming, name))
		}
	}
}

// List walks the folders.
func (d *dirTarget) List(ctx context.Context, prefix string) (names []string, err error) {
	err = d.walk(ctx, "", prefix, &names)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := d.fs.Stat(d.root); errors.Is(missing, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return names, err
}

// notOfNames reports a character that names of objects do not have.
func notOfNames(c rune) bool {
	return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

func (d *dirTarget) walk(ctx context.Context, dir, prefix string, names *[]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := d.fs.List(filepath.Join(d.root, filepath.FromSlash(dir)))
	if err != nil {
		return err
	}
	for _, base := range in {
		name := path.Join(dir, base)
		if name == incoming || !strings.HasPrefix(name, prefix) &&
			!strings.HasPrefix(prefix, name+"/") {
			continue
		}
		info, err := d.fs.Stat(filepath.Join(d.root, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
		case err != nil:
			return err
		case info.IsDir():
			if strings.ContainsFunc(base, notOfNames) {
				continue // another program's, which may not be readable: lost+found, .Trash-1000
			}
			err := d.walk(ctx, name, prefix, names)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case info.Mode().IsRegular() && strings.HasPrefix(name, prefix):
			*names = append(*names, name)
		}
	}
	return nil
}

// Delete removes the file, and folders that are empty then.
func (d *dirTarget) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := d.path(name)
	if err != nil {
		return err
	}
	if err := vfs.RemoveIfThere(d.fs, file); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := filepath.Dir(file); dir != d.root; dir = filepath.Dir(dir) {
		if d.fs.Remove(dir) != nil { // it is not empty
			break
		}
		delete(d.made, dir)
	}
	return nil
}
