package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/record"
	"github.com/loamdb/loam/internal/vfs"
)

// maxCurrentSize is more than the longest name of a MANIFEST, in bytes.
const maxCurrentSize = 64

// ReadResult tells how the reading of a MANIFEST ended.
type ReadResult struct {
	State State
	// Torn describes an incomplete or damaged end after which nothing valid
	// follows: the edit that was being written when the machine stopped.
	Torn *base.Corruption
	// Size is how many bytes, from the start, hold the edits in State.
	Size int64
}

// ReadManifest adds up the edits of the MANIFEST name in dir. With an error the
// result holds the edits before it. Damage is a *base.Corruption, or
// base.ErrNotADatabase where another engine wrote the file, base.ErrNewerFormat where
// a newer version of this one did; a failure to read is the error of the file system.
func ReadManifest(fsys vfs.FS, dir, name string, format base.Format) (*ReadResult, error) {
	res := &ReadResult{}
	f, err := openRegular(fsys, dir, name)
	if err != nil {
		return res, err
	}
	defer f.Close()
	r := record.NewReader(f, f.Size(), name)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return res, nil
		}
		if err != nil {
			var c *base.Corruption
			if errors.As(err, &c) && r.Tail() {
				res.Torn = c
				return res, nil
			}
			return res, fmt.Errorf("reading %s: %w", name, err)
		}
		var e Edit
		if err = e.Decode(rec, format); err == nil {
			err = res.State.Apply(&e)
		}
		if err != nil {
			return res, locate(err, name, r.Offset(), int64(len(rec)))
		}
		res.Size = r.Offset() + int64(len(rec))
	}
}

// locate names the file in an error that is about its contents.
func locate(err error, name string, off, length int64) error {
	if errors.Is(err, base.ErrCorruption) {
		return base.LocateCorruption(err, name, off, length)
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

// noEOF makes an end of file before the expected length an unexpected one.
func noEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// openRegular opens a file of the directory that must be a regular one.
func openRegular(fsys vfs.FS, dir, name string) (vfs.ReadFile, error) {
	path := filepath.Join(dir, name)
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file (%v)", base.ErrNotADatabase, path, info.Mode().Type())
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return f, nil
}

// checkNoCurrent tells an empty place from a database that lost its CURRENT:
// without it, tables or a log with contents can only be left of a database.
func checkNoCurrent(fsys vfs.FS, dir string, names []string) error {
	for _, name := range names {
		lost := false
		t, num := base.LevelDB.ParseFileName(name)
		if t == base.FileUnknown {
			t, num = base.Native.ParseFileName(name)
		}
		if num > maxFileNum {
			continue
		}
		switch t {
		case base.FileTable:
			lost = true
		case base.FileLog:
			var err error
			if lost, err = hasContents(fsys, dir, name); err != nil {
				return err
			}
		}
		if lost {
			return base.LocateCorruption(base.Corruptf(kindCurrent, "is missing, but there is %s", name), base.CurrentName, 0, 0)
		}
	}
	return fmt.Errorf("%w: %s has no CURRENT: %w", base.ErrDoesNotExist, dir, fs.ErrNotExist)
}

// hasContents reports whether a log holds more than space allocated ahead.
func hasContents(fsys vfs.FS, dir, name string) (bool, error) {
	f, err := openRegular(fsys, dir, name)
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
