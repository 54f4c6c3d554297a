package backup

import (
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// View is a file system with one directory, Dir: the files of a backup under the names that they
// had in their database. It is for reading: calls that change something fail with base.ErrReadOnly.
// It is safe for concurrent use. Checksums of the folder are not compared; the database that is
// opened in a View compares those of tables, logs and the MANIFEST.
type View struct {
	// Dir is the path of the backup's catalog, so that errors name a file within the backup.
	Dir string

	f     *Folder
	c     *catalog
	files map[string]objectID // by path
	dirs  map[string][]string // names, ascending, by path
}

// View shows the files of a backup, which stays, also when it is deleted, until Close. The folder
// is closed after its views.
func (f *Folder) View(id uint64) (*View, error) {
	if err := f.begin(false); err != nil {
		return nil, err
	}
	defer f.ended.Done()
	c, err := f.hold(id)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(f.path, catalogName(id))
	v := &View{Dir: dir, f: f, c: c, files: map[string]objectID{},
		dirs: map[string][]string{dir: nil}}
	if c.format == base.Native {
		v.addDir(filepath.Join(dir, base.CurrentName))
	}
	for i := range c.files {
		path := filepath.Join(dir, filepath.FromSlash(c.files[i].name))
		v.files[path] = c.files[i].object
		in := filepath.Dir(path)
		v.addDir(in)
		v.dirs[in] = append(v.dirs[in], filepath.Base(path))
	}
	for _, names := range v.dirs {
		slices.Sort(names)
	}
	return v, nil
}

// addDir adds a directory below Dir once, and its name to the one above.
func (v *View) addDir(path string) {
	if _, ok := v.dirs[path]; ok {
		return
	}
	v.dirs[path] = nil
	above := filepath.Dir(path)
	v.addDir(above)
	v.dirs[above] = append(v.dirs[above], filepath.Base(path))
}

// Close lets go of the backup. Files that are open stay readable.
func (v *View) Close() error {
	if err := v.f.begin(false); err != nil {
		return err
	}
	defer v.f.ended.Done()
	return v.f.release(v.c)
}

// Open opens a file.
func (v *View) Open(name string) (vfs.ReadFile, error) {
	id, ok := v.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	r, err := v.f.fs.Open(v.f.objectPath(id))
	if err != nil {
		return nil, err
	}
	if r.Size() != id.size {
		err := base.Corruptf("file of a backup", "it has %d bytes instead of %d", r.Size(), id.size)
		_ = r.Close()
		return nil, base.LocateCorruption(err, objectsDir+"/"+id.name(), 0, id.size)
	}
	return r, nil
}

// List returns the names in a directory, ascending.
func (v *View) List(dir string) ([]string, error) {
	names, ok := v.dirs[dir]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	return slices.Clone(names), nil
}

// Stat describes a file or a directory.
func (v *View) Stat(name string) (fs.FileInfo, error) {
	where := v.f.path
	id, ok := v.files[name]
	if ok {
		where = v.f.objectPath(id)
	} else if _, ok = v.dirs[name]; !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	info, err := v.f.fs.Stat(where)
	if err != nil {
		return nil, err
	}
	return renamed{info, filepath.Base(name)}, nil
}

// renamed is what Stat says of a file under another name.
type renamed struct {
	fs.FileInfo
	name string
}

func (r renamed) Name() string { return r.name }

// LockShared locks nothing: the folder is locked, and the backup is held.
func (v *View) LockShared(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (v *View) readOnly() error {
	return says(base.ErrReadOnly, "backup %d is for reading only", v.c.id)
}

// Lock fails, as all below do.
func (v *View) Lock(string) (io.Closer, error) { return nil, v.readOnly() }

// Create fails.
func (v *View) Create(string) (vfs.WriteFile, error) { return nil, v.readOnly() }

// CreateLog fails.
func (v *View) CreateLog(string, int64) (vfs.Log, error) { return nil, v.readOnly() }

// Remove fails.
func (v *View) Remove(string) error { return v.readOnly() }

// Rename fails.
func (v *View) Rename(_, _ string) error { return v.readOnly() }

// MkdirAll fails.
func (v *View) MkdirAll(string) error { return v.readOnly() }

// SyncDir fails.
func (v *View) SyncDir(string) error { return v.readOnly() }
