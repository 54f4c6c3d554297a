package current

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// maxCurrentSize is more than the longest name of a MANIFEST, in bytes.
const maxCurrentSize = 64

// OpenRegular opens a file of the directory that must be a regular one.
func OpenRegular(fsys vfs.FS, dir, name string) (vfs.ReadFile, error) {
	path := filepath.Join(dir, name)
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file (%v)", base.ErrNotADatabase, path,
			info.Mode().Type())
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return f, nil
}

// CheckMissing tells an empty place from a database that lost its CURRENT:
// without it, tables or a log with contents can only be left of a database.
func CheckMissing(fsys vfs.FS, dir string, names []string) error {
	for _, name := range names {
		lost := false
		t, num := base.LevelDB.ParseFileName(name)
		if t == base.FileUnknown {
			t, num = base.Native.ParseFileName(name)
		}
		if num > base.MaxFileNum {
			continue
		}
		switch t {
		case base.FileTable, base.FileValues:
			lost = true
		case base.FileLog:
			var err error
			if lost, err = hasContents(fsys, dir, name); err != nil {
				return err
			}
		}
		if lost {
			return base.Corruptf(kind, "is missing, but there is %s", name).At(
				base.CurrentName, 0, 0)
		}
	}
	return fmt.Errorf("%w: %s has no CURRENT: %w", base.ErrDoesNotExist, dir, fs.ErrNotExist)
}

// hasContents reports whether a log holds more than space allocated ahead.
func hasContents(fsys vfs.FS, dir, name string) (bool, error) {
	f, err := OpenRegular(fsys, dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var head [7]byte // a record's header
	n, err := f.ReadAt(head[:min(f.Size(), int64(len(head)))], 0)
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("reading %s: %w", name, err)
	}
	return len(bytes.Trim(head[:n], "\x00")) > 0, nil
}

// Missing is the error for a MANIFEST in force that is not there.
func (c *Pointer) Missing() error {
	return base.Corruptf(kind, "names %s, which is missing", c.Manifest).At(c.File, 0, 0)
}
