package files

import "github.com/loamdb/loam/internal/os/vfs"

// RoomyFS makes room for a database's own files when the process has no descriptor
// left, by closing idle ones of tables.
type RoomyFS struct{ vfs.FS }

// Below is the file system whose calls it repeats, see vfs.Absolute.
func (f RoomyFS) Below() vfs.FS { return f.FS }

// Create makes a new file.
func (f RoomyFS) Create(name string) (w vfs.WriteFile, err error) {
	err = MakeRoom(func() error { w, err = f.FS.Create(name); return err })
	return w, err
}

// CreateLog makes a new log.
func (f RoomyFS) CreateLog(name string, ahead int64) (l vfs.Log, err error) {
	err = MakeRoom(func() error { l, err = f.FS.CreateLog(name, ahead); return err })
	return l, err
}

// Open opens a file.
func (f RoomyFS) Open(name string) (r vfs.ReadFile, err error) {
	err = MakeRoom(func() error { r, err = f.FS.Open(name); return err })
	return r, err
}

// ReuseLog is that of the FS below, if it can.
func (f RoomyFS) ReuseLog(oldName, newName string,
	ahead int64) (l vfs.Log, former int64, err error) {
	err = MakeRoom(func() error {
		l, former, err = vfs.ReuseLog(f.FS, oldName, newName, ahead)
		return err
	})
	return l, former, err
}

// Link is that of the FS below, if it can.
func (f RoomyFS) Link(oldName, newName string) error { return vfs.Link(f.FS, oldName, newName) }
