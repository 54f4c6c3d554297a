// Package current is CURRENT, which names the MANIFEST in force, in both formats: it is read,
// replaced and removed here, and a directory that has lost it is told from an empty one.
//
// Everything is a function of a directory. The caller holds the directory's lock where it
// changes something.
package current

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

// In LevelDB's format CURRENT is a file with the name of the MANIFEST in force. In the native format it
// is a directory with that file in it, and a checksum in the file. It is made under another name and
// renamed, as an upgrade has to remove the file CURRENT first. Where there is no CURRENT, UpgradeName is in force;
// firstName, which becomes the CURRENT of a new database, never is.
const (
	// UpgradeName is CURRENT as an upgrade makes it.
	UpgradeName = base.CurrentName + ".new"
	firstName   = base.CurrentName + ".tmp"
	pointerName = "manifest"
	pointerTemp = pointerName + ".new" // what a crash leaves of it is replaced
)

const kind = "current file" // in Corruption errors

// FileOf is the file in which a database of a format names its MANIFEST, with a slash between the
// directory and the file in it.
func FileOf(f base.Format) string {
	if f == base.Native {
		return base.CurrentName + "/" + pointerName
	}
	return base.CurrentName
}

// ErrUnsynced is the failure of a sync that the state depends on. It is not tried
// again: a second sync may succeed although the first one lost the data.
var ErrUnsynced = errors.New("sync failed")

// Pointer is what CURRENT says.
type Pointer struct {
	Format   base.Format
	File     string // that says it, within the directory
	Manifest string // name of the MANIFEST in force
}

// Read returns what CURRENT of the database in dir says. fs.ErrNotExist holds when there is
// no CURRENT; Format is known also where CURRENT is damaged.
func Read(fsys vfs.FS, dir string) (c Pointer, err error) {
	c.File = base.CurrentName
	there, isDir, err := stat(fsys, dir, base.CurrentName)
	if err == nil && !there {
		_, newDir, err2 := stat(fsys, dir, UpgradeName)
		if err = err2; newDir {
			c.File, isDir = UpgradeName, true
		}
	}
	if err != nil {
		return c, fmt.Errorf("opening %s: %w", base.CurrentName, err)
	}
	if isDir {
		c.File, c.Format = filepath.Join(c.File, pointerName), base.Native
	}
	c.Manifest, err = c.read(fsys, dir)
	return c, err
}

// stat tells whether a name is there, and whether it is a directory.
func stat(fsys vfs.FS, dir, name string) (there, isDir bool, err error) {
	info, err := fsys.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return err == nil, err == nil && info.IsDir(), err
}

// read reads the name of the MANIFEST.
func (c *Pointer) read(fsys vfs.FS, dir string) (string, error) {
	f, err := OpenRegular(fsys, dir, c.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	corrupt := func(format string, args ...any) error {
		return base.LocateCorruption(base.Corruptf(kind, format, args...), c.File, 0, f.Size())
	}
	if f.Size() == 0 {
		return "", corrupt("is empty")
	}
	if f.Size() > maxCurrentSize {
		return "", corrupt("is %d bytes long", f.Size())
	}
	b := make([]byte, f.Size())
	if err := base.ReadFull(f, b, 0); err != nil {
		return "", fmt.Errorf("reading %s: %w", c.File, err)
	}
	name, ok := bytes.CutSuffix(b, []byte("\n"))
	if !ok {
		return "", corrupt("does not end with a newline")
	}
	if c.Format == base.Native {
		if name, _, _ = bytes.Cut(name, []byte(" ")); !bytes.Equal(b, contents(c.Format, string(name))) {
			return "", corrupt("its checksum is wrong: %q", b)
		}
	}
	if t, num := c.Format.ParseFileName(string(name)); t != base.FileManifest || num > base.MaxFileNum {
		return "", corrupt("does not name a MANIFEST: %q", name)
	}
	return string(name), nil
}

// contents is that of the file that names the MANIFEST in force.
func contents(f base.Format, manifest string) []byte {
	if f == base.Native {
		return fmt.Appendf(nil, "%s %08x\n", manifest, crc32.Checksum([]byte(manifest), crc32.MakeTable(crc32.Castagnoli)))
	}
	return []byte(manifest + "\n")
}

// Set makes CURRENT name MANIFEST num, which is durable already, by way
// of a temporary file. renamed tells whether CURRENT may name it although the
// call failed.
func Set(fsys vfs.FS, dir string, f base.Format, num uint64) (renamed bool, err error) {
	if f == base.Native {
		renamed, err = setNative(fsys, dir, num)
	} else {
		renamed, err = setPointer(fsys, dir, base.CurrentName, f, num)
	}
	if err != nil {
		return renamed, fmt.Errorf("writing %s: %w", base.CurrentName, err)
	}
	return true, nil
}

// setPointer makes the file name in dir say MANIFEST num.
func setPointer(fsys vfs.FS, dir, name string, f base.Format, num uint64) (renamed bool, err error) {
	temp, target := filepath.Join(dir, cmp.Or(f.FileName(base.FileTemp, num), pointerTemp)), filepath.Join(dir, name)
	if filepath.Base(dir) == firstName {
		temp = target // not in force: a rename would be one wait for the disk more
	}
	if f == base.Native {
		if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if err := WriteFile(fsys, temp, contents(f, f.FileName(base.FileManifest, num))); err != nil {
		return false, err
	}
	if temp != target {
		if err := fsys.Rename(temp, target); err != nil {
			if f == base.Native {
				_ = fsys.Remove(temp) // gone if it was renamed
			}
			return true, err
		}
	}
	if err := fsys.SyncDir(dir); err != nil { // the new pointer is durable
		return true, fmt.Errorf("%w: %w", ErrUnsynced, err)
	}
	return true, nil
}

// setNative is Set in the native format. What it replaces may be a
// directory, LevelDB's file, or nothing.
func setNative(fsys vfs.FS, dir string, num uint64) (renamed bool, err error) {
	path, made := filepath.Join(dir, base.CurrentName), filepath.Join(dir, UpgradeName)
	there, isDir, err := stat(fsys, dir, base.CurrentName)
	if err != nil {
		return false, err
	}
	if isDir {
		return setPointer(fsys, path, pointerName, base.Native, num)
	}
	if upgrade, _, err := stat(fsys, dir, UpgradeName); err != nil {
		return false, err
	} else if !there && !upgrade {
		made = filepath.Join(dir, firstName)
	}
	if err := fsys.MkdirAll(made); err != nil {
		return false, err
	}
	if renamed, err = setPointer(fsys, made, pointerName, base.Native, num); err != nil {
		return renamed && !there, err
	}
	// UpgradeName is durable where there is a file CURRENT, see manifest.Set.BeginUpgrade: so a crash
	// finds the new pointer when that is gone.
	if there {
		if err := fsys.Remove(path); err != nil {
			return true, err
		}
	}
	if err := fsys.Rename(made, path); err != nil {
		return true, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return true, fmt.Errorf("%w: %w", ErrUnsynced, err)
	}
	return true, nil
}

// Remove removes CURRENT. At each step there is one that is whole or none.
func Remove(fsys vfs.FS, dir string) error {
	for _, name := range []string{base.CurrentName, UpgradeName, firstName} {
		there, isDir, err := stat(fsys, dir, name)
		if isDir {
			err = RemoveDir(fsys, filepath.Join(dir, name))
		} else if there && name != firstName {
			err = fsys.Remove(filepath.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// RemoveDir removes a native CURRENT. The directory stays if somebody else's files
// are in it.
func RemoveDir(fsys vfs.FS, path string) error {
	for _, name := range []string{pointerName, pointerTemp} {
		if err := fsys.Remove(filepath.Join(path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := fsys.SyncDir(path)
	if err == nil {
		_ = fsys.Remove(path)
	}
	return err
}

// WriteFile makes a durable file, but for its name, and removes it again when that fails.
func WriteFile(fsys vfs.FS, name string, contents []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}
