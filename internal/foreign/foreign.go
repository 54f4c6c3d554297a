// Package foreign recognizes what other engines wrote: their directories, the records of
// their MANIFESTs and their tables. It refuses them; it reads none.
package foreign

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

// CheckDir fails with base.ErrNotADatabase when names, the files of dir,
// show that the directory is RocksDB's or Pebble's: both write an OPTIONS-N
// file that LevelDB never does, and Pebble marker files.
func CheckDir(fsys vfs.FS, dir string, names []string) error {
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

// optionsOwner names the engine that wrote an OPTIONS file.
func optionsOwner(fsys vfs.FS, dir, name string) string {
	const unknown = "RocksDB or Pebble"
	path := filepath.Join(dir, name)
	if info, err := fsys.Stat(path); err != nil || !info.Mode().IsRegular() {
		return unknown
	}
	f, err := fsys.Open(path)
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

// CheckNew fails with base.ErrNotADatabase when a new database would be created among
// another engine's files.
func CheckNew(names []string) error {
	for _, name := range names {
		for _, s := range strangers {
			if strings.HasPrefix(name, s.prefix) && strings.HasSuffix(name, s.suffix) {
				return fmt.Errorf("%w: the directory has %s, a file of %s", base.ErrNotADatabase, name, s.engine)
			}
		}
	}
	return nil
}

// manifestTags are tags of MANIFEST records that only descendants of LevelDB write.
var manifestTags = map[uint32]string{
	10:  "min log number to keep",
	100: "new file 2",
	101: "new file 2, reserved",
	102: "new file 3",
	103: "new file 4",
	104: "new file 5",
	105: "created backing table",
	106: "removed backing table",
	107: "new blob file",
	108: "deleted blob file",
	200: "column family",
	201: "column family add",
	202: "column family drop",
	203: "max column family",
	300: "atomic group",
	400: "blob file addition",
	401: "blob file garbage",
}

// skippedTag is set in tags that RocksDB's older versions may skip; no LevelDB tag has it.
const skippedTag = 1 << 13

// CheckTag fails with base.ErrNotADatabase for a tag of another engine's MANIFEST.
func CheckTag(tag uint32) error {
	if name, ok := manifestTags[tag]; ok {
		return fmt.Errorf("%w: the MANIFEST was written by RocksDB or Pebble (tag %d, %s)", base.ErrNotADatabase, tag, name)
	}
	if tag&skippedTag != 0 && tag < skippedTag<<1 {
		return fmt.Errorf("%w: the MANIFEST was written by RocksDB (tag %d)", base.ErrNotADatabase, tag)
	}
	return nil
}

// tableMagics are the last eight bytes of table formats that Loam does not read.
var tableMagics = map[uint64]string{
	0x88e241b785f4cff7: "a RocksDB table",
	0x8242229663bf9564: "a RocksDB plain table",
	0x4f3418eb7a8f13b8: "an old RocksDB plain table",
	0x926789d0c5f17873: "a RocksDB cuckoo table",
	0xb3aa9ff0b3aa9ff0: "a Pebble table",
	0:                  "zeros, as if it was never written",
}

// Table says what a file is that ends with magic, which is of no format that is read.
func Table(magic uint64) string {
	if what, ok := tableMagics[magic]; ok {
		return what
	}
	return "no table format that is known"
}
