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
	"github.com/loamdb/loam/internal/os/vfs"
)

// In LevelDB's format CURRENT is a file with the name of the MANIFEST in force. In the native
// format it is a directory with that file in it, and a checksum in the file. It is made under
// another name and renamed, as an upgrade has to remove the file CURRENT first. Where there is no
// CURRENT, UpgradeName is in force; firstName, which becomes the CURRENT of a new database, never
// is.
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
//
// A follower reads beside a writer, which gives a directory the name CURRENT when it creates or
// upgrades a database. If that happens between two calls here, a directory stands where a file was
// expected: then CURRENT is read once more. A directory is never replaced by a file.
func Read(fsys vfs.FS, dir string) (c Pointer, err error) {
	c, err = readOnce(fsys, dir)
	if c.Format == base.LevelDB &&
		(errors.Is(err, base.ErrNotADatabase) || errors.Is(err, vfs.ErrNotRegular)) {
		return readOnce(fsys, dir)
	}
	return c, err
}

func readOnce(fsys vfs.FS, dir string) (c Pointer, err error) {
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

// IsNative reports whether a directory has a CURRENT of the native format, be it damaged or
// unfinished. No other engine makes a directory of such a name. fs.ErrNotExist: dir is not there.
func IsNative(fsys vfs.FS, dir string) (bool, error) {
	if _, err := fsys.Stat(dir); err != nil {
		return false, err
	}
	for _, name := range []string{base.CurrentName, UpgradeName, firstName} {
		if _, isDir, err := stat(fsys, dir, name); isDir || err != nil {
			return isDir, err
		}
	}
	return false, nil
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
		return base.Corruptf(kind, format, args...).At(c.File, 0, f.Size())
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
		if name, _, _ = bytes.Cut(name,
			[]byte(" ")); !bytes.Equal(b, contents(c.Format, string(name))) {
			return "", corrupt("its checksum is wrong: %q", b)
		}
	}
	if t, num := c.Format.ParseFileName(string(name)); t != base.FileManifest ||
		num > base.MaxFileNum {
		if t == base.FileLog {
			return "", corrupt("names a log, not a MANIFEST: %q", name)
		}
		return "", corrupt("does not name a MANIFEST: %q", name)
	}
	return string(name), nil
}

// contents is that of the file that names the MANIFEST in force.
func contents(f base.Format, manifest string) []byte {
	if f == base.Native {
		return fmt.Appendf(nil, "%s %08x\n", manifest,
			crc32.Checksum([]byte(manifest), crc32.MakeTable(crc32.Castagnoli)))
	}
	return []byte(manifest + "\n")
}

// Change is CURRENT on its way to naming another MANIFEST, by way of a temporary file.
type Change struct {
	fs   vfs.FS
	dir  string
	file vfs.WriteFile // the temporary one
	temp string        // its name
	// the name that it gets; temp: it is in a directory that gets another name
	target  string
	made    string // the directory that becomes CURRENT, "": none does
	removes bool   // the file CURRENT, before that
}

// Begin prepares CURRENT to name MANIFEST num. Nothing is in force, and nothing durable: before
// Commit come the Syncs, and Discard takes it back.
func Begin(fsys vfs.FS, dir string, f base.Format, num uint64) (*Change, error) {
	c := &Change{fs: fsys, dir: dir}
	err := c.begin(f, num)
	if err != nil {
		return nil, c.failed(err)
	}
	return c, nil
}

// begin chooses the names and writes the temporary file.
func (c *Change) begin(f base.Format, num uint64) error {
	c.target = filepath.Join(c.dir, base.CurrentName)
	c.temp = filepath.Join(c.dir, f.FileName(base.FileTemp, num))
	if f == base.Native {
		holder, err := c.holder()
		if err != nil {
			return err
		}
		c.target, c.temp = filepath.Join(holder, pointerName), filepath.Join(holder, pointerTemp)
		if filepath.Base(holder) == firstName {
			c.temp = c.target // not in force: a rename would be one wait for the disk more
		}
		if err := vfs.RemoveIfThere(c.fs, c.temp); err != nil {
			return err
		}
	}
	var err error
	if c.file, err = c.fs.Create(c.temp); err != nil {
		return err
	}
	if _, err = c.file.Write(contents(f, f.FileName(base.FileManifest, num))); err != nil {
		return errors.Join(err, c.Discard())
	}
	return nil
}

// holder is the directory for the file of the native format. The replaced CURRENT may be a
// directory, LevelDB's file, or missing.
func (c *Change) holder() (string, error) {
	there, isDir, err := stat(c.fs, c.dir, base.CurrentName)
	if err != nil || isDir {
		return filepath.Join(c.dir, base.CurrentName), err
	}
	c.made, c.removes = filepath.Join(c.dir, UpgradeName), there
	if upgrade, _, err := stat(c.fs, c.dir, UpgradeName); err != nil {
		return "", err
	} else if !there && !upgrade {
		c.made = filepath.Join(c.dir, firstName)
	}
	return c.made, c.fs.MkdirAll(c.made)
}

func (c *Change) failed(err error) error {
	return fmt.Errorf("writing %s: %w", base.CurrentName, err)
}

// Syncs are the calls that make what Begin wrote durable, in any order.
func (c *Change) Syncs() []func() error {
	calls := []func() error{func() error {
		if err := c.file.Sync(); err != nil {
			return c.failed(err)
		}
		return nil
	}}
	if c.temp == c.target {
		calls = append(calls, func() error { return c.syncDir(filepath.Dir(c.temp)) })
	}
	return calls
}

// syncDir makes names in a directory durable.
func (c *Change) syncDir(dir string) error {
	if err := c.fs.SyncDir(dir); err != nil {
		return c.failed(fmt.Errorf("%w: %w", ErrUnsynced, err))
	}
	return nil
}

// Discard removes the temporary file, instead of Commit.
func (c *Change) Discard() error {
	return errors.Join(c.file.Close(), c.fs.Remove(c.temp))
}

// Commit puts the change in force, and makes that durable. The MANIFEST, its name and the Syncs are
// durable already: a crash could keep the rename and lose what came before it. renamed tells
// whether CURRENT may name the MANIFEST although the call failed.
func (c *Change) Commit() (renamed bool, err error) {
	if err := c.file.Close(); err != nil {
		return false, c.failed(errors.Join(err, c.fs.Remove(c.temp)))
	}
	if c.temp != c.target {
		if err := c.fs.Rename(c.temp, c.target); err != nil {
			if filepath.Base(c.target) == pointerName {
				_ = c.fs.Remove(c.temp) // gone if it was renamed
			}
			return c.made == "" || !c.removes, c.failed(err)
		}
		if err := c.syncDir(filepath.Dir(c.target)); err != nil { // the new pointer is durable
			return c.made == "" || !c.removes, err
		}
	}
	if c.made == "" {
		return true, nil
	}
	// UpgradeName is durable where there is a file CURRENT, see manifest.Set.BeginUpgrade: so a
	// crash finds the new pointer when that is gone.
	path := filepath.Join(c.dir, base.CurrentName)
	if c.removes {
		if err := c.fs.Remove(path); err != nil {
			return true, c.failed(err)
		}
	}
	if err := c.fs.Rename(c.made, path); err != nil {
		return true, c.failed(err)
	}
	return true, c.syncDir(c.dir)
}

// Remove removes CURRENT. At each step there is either a whole CURRENT or none.
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
		if err := vfs.RemoveIfThere(fsys, filepath.Join(path, name)); err != nil {
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
	if err = cmp.Or(err, f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}
