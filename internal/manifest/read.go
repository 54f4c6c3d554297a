package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

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
// base.ErrNotADatabase where another engine wrote the file; a failure to read
// is the error of the file system. Without keyspaces the MANIFEST is LevelDB's.
func ReadManifest(fsys vfs.FS, dir, name string, keyspaces bool) (*ReadResult, error) {
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
		if err = e.Decode(rec, keyspaces); err == nil {
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

// ReadCurrent returns the name of the MANIFEST that CURRENT in dir names.
// fs.ErrNotExist holds when there is no CURRENT.
func ReadCurrent(fsys vfs.FS, dir string) (string, error) {
	f, err := openRegular(fsys, dir, base.CurrentName)
	if err != nil {
		return "", err
	}
	defer f.Close()
	corrupt := func(format string, args ...any) error {
		return base.LocateCorruption(base.Corruptf(kindCurrent, format, args...), base.CurrentName, 0, f.Size())
	}
	if f.Size() == 0 {
		return "", corrupt("is empty")
	}
	if f.Size() > maxCurrentSize {
		return "", corrupt("is %d bytes long", f.Size())
	}
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return "", fmt.Errorf("reading %s: %w", base.CurrentName, noEOF(err))
	}
	name, ok := bytes.CutSuffix(b, []byte("\n"))
	if !ok {
		return "", corrupt("does not end with a newline")
	}
	if t, num := base.ParseFileName(string(name)); t != base.FileManifest || num > maxFileNum {
		return "", corrupt("does not name a MANIFEST: %q", name)
	}
	return string(name), nil
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

// CheckForeign fails with base.ErrNotADatabase when names, the files of dir,
// show that the directory is RocksDB's or Pebble's: both write an OPTIONS-N
// file that LevelDB never does, and Pebble marker files.
func CheckForeign(fsys vfs.FS, dir string, names []string) error {
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") || strings.HasPrefix(name, "marker.manifest.") {
			return fmt.Errorf("%w: %s is a Pebble database (%s)", base.ErrNotADatabase, dir, name)
		}
		if num, ok := strings.CutPrefix(name, "OPTIONS-"); ok && num != "" && strings.Trim(num, "0123456789") == "" {
			return fmt.Errorf("%w: %s is a %s database (%s)", base.ErrNotADatabase, dir, optionsOwner(fsys, dir, name), name)
		}
	}
	return nil
}

// strangers are names by which other engines' directories are known. Beside a
// LevelDB database some may be the user's own.
var strangers = []struct{ prefix, suffix, engine string }{
	{"IDENTITY", "", "RocksDB"},
	{"marker.", "", "Pebble"},
	{"KEYREGISTRY", "", "Badger"},
	{"", ".vlog", "Badger"},
	{"", ".sqlite", "SQLite"},
	{"data.mdb", "", "LMDB"},
}

// checkEmpty keeps a database from being created among another engine's files.
func checkEmpty(names []string) error {
	for _, name := range names {
		for _, s := range strangers {
			if strings.HasPrefix(name, s.prefix) && strings.HasSuffix(name, s.suffix) {
				return fmt.Errorf("%w: the directory has %s, a file of %s", base.ErrNotADatabase, name, s.engine)
			}
		}
	}
	return nil
}

// optionsOwner names the engine that wrote an OPTIONS file.
func optionsOwner(fsys vfs.FS, dir, name string) string {
	const unknown = "RocksDB or Pebble"
	f, err := openRegular(fsys, dir, name)
	if err != nil {
		return unknown
	}
	defer f.Close()
	b := make([]byte, min(f.Size(), 4096))
	if n, _ := f.ReadAt(b, 0); n < len(b) {
		return unknown
	}
	switch {
	case bytes.Contains(b, []byte("pebble_version=")):
		return "Pebble"
	case bytes.Contains(b, []byte("rocksdb_version=")):
		return "RocksDB"
	}
	return unknown
}

// checkNoCurrent tells an empty place from a database that lost its CURRENT:
// without it, tables or a log with contents can only be left of a database.
func checkNoCurrent(fsys vfs.FS, dir string, names []string) error {
	for _, name := range names {
		lost := false
		t, num := base.ParseFileName(name)
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
