// Package foreign recognizes what other engines wrote: their directories, their files, the
// records of their MANIFESTs and their tables. It refuses them; it reads none.
package foreign

import (
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// importable are the engines that the command loam converts, with the names that it has for them.
var importable = map[string]string{"Badger": "badger", "bbolt": "bbolt", "LMDB": "lmdb",
	"Pebble": "pebble", "RocksDB": "rocksdb", "SQLite": "sqlite"}

// Refused is the error for a directory in which file is a file of engine.
func Refused(dir, engine, file string) error {
	convert := ""
	if name := importable[engine]; name != "" {
		convert = fmt.Sprintf("; \"loam convert --from %s\" copies it into a new database", name)
	}
	return fmt.Errorf("%w: %s is a directory of %s (%s): open it with %s, or choose another "+
		"directory%s", base.ErrNotADatabase, dir, engine, file, engine, convert)
}

// CheckDir fails with base.ErrNotADatabase when a file of dir shows that the directory belongs to
// an engine whose other files have names of LevelDB's: RocksDB, Pebble or Badger. LevelDB
// writes no such file. names are the files of dir.
func CheckDir(fsys vfs.FS, dir string, names []string) error {
	for _, name := range names {
		engine := ""
		switch {
		case numbered(name, "marker.format-version."), numbered(name, "marker.manifest."):
			engine = "Pebble"
		case strings.HasPrefix(name, "OPTIONS-") && digits(name[len("OPTIONS-"):]):
			engine = optionsOwner(head(fsys, dir, name))
		case name == "MANIFEST" && strings.HasPrefix(head(fsys, dir, name), "Bdgr"):
			engine = "Badger"
		case name == "KEYREGISTRY" && len(head(fsys, dir, name)) >= badgerRegistry:
			engine = "Badger"
		}
		if engine != "" {
			return Refused(dir, engine, name)
		}
	}
	return nil
}

// badgerRegistry is the length of Badger's key registry without keys: a vector of 16 bytes,
// and "Hello Badger", which is encrypted where the keys are.
const badgerRegistry = 28

// numbered reports whether name is prefix, a number, a dot and more, as Pebble names its markers.
func numbered(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	num, value, more := strings.Cut(rest, ".")
	return ok && more && digits(num) && value != ""
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// optionsOwner names the engine that wrote an OPTIONS file.
func optionsOwner(contents string) string {
	switch {
	case strings.Contains(contents, "pebble_version="):
		return "Pebble"
	case strings.Contains(contents, "rocksdb_version="):
		return "RocksDB"
	}
	return "RocksDB or Pebble"
}

// headSize is how many bytes of a file are looked at.
const headSize = 4096

// head returns the first bytes of a regular file, "" when they cannot be read.
func head(fsys vfs.FS, dir, name string) string {
	path := filepath.Join(dir, name)
	if info, err := fsys.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := fsys.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, min(f.Size(), headSize))
	if n, err := f.ReadAt(b, 0); n < len(b) && err != io.EOF {
		return ""
	}
	return string(b)
}

// magics are bytes in files of engines that share no name with LevelDB. Numbers are as
// machines with the low byte first write them.
var magics = []struct {
	offset        int
	bytes, engine string
}{
	{0, "SQLite format 3\x00", "SQLite"},
	{16, "\xde\xc0\xef\xbe", "LMDB"},
	{16, "\xed\xda\x0c\xed", "bbolt"},
	{16, "\x11\x4c\xef\xbd\x9d\x65\x59", "libmdbx"},
	{0, "redb\x1a\x0a\xa9\x0d\x0a", "redb"},
	{0, "WiredTiger\n", "WiredTiger"},
	{12, "\x62\x31\x05\x00", "Berkeley DB"},
	{12, "\x61\x15\x06\x00", "Berkeley DB"},
	{0, "ToKyO CaBiNeT\n", "Tokyo Cabinet"},
	{0, "KC\n\x00", "Kyoto Cabinet"},
}

// names of files that are enough by themselves: their contents have no magic, or it is encrypted.
var strangers = []struct{ prefix, suffix, engine string }{
	{"IDENTITY", "", "RocksDB"},
	{"", ".vlog", "Badger"},
	{"WiredTiger", "", "WiredTiger"},
}

// maxLooked bounds the files whose contents CheckNew reads.
const maxLooked = 1000

// CheckNew fails with base.ErrNotADatabase when a database would be created among files of
// another engine, whatever their names are. No file of dir, whose names these are, is a database's.
func CheckNew(fsys vfs.FS, dir string, names []string) error {
	for i, name := range names {
		for _, s := range strangers {
			if strings.HasPrefix(name, s.prefix) && strings.HasSuffix(name, s.suffix) {
				return Refused(dir, s.engine, name)
			}
		}
		if i >= maxLooked {
			continue
		}
		b := head(fsys, dir, name)
		for _, m := range magics {
			if len(b) >= m.offset && strings.HasPrefix(b[m.offset:], m.bytes) {
				return Refused(dir, m.engine, name)
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
		return fmt.Errorf("%w: the MANIFEST was written by RocksDB or Pebble (tag %d, %s)",
			base.ErrNotADatabase, tag, name)
	}
	if tag&skippedTag != 0 && tag < skippedTag<<1 {
		return fmt.Errorf("%w: the MANIFEST was written by RocksDB (tag %d)", base.ErrNotADatabase,
			tag)
	}
	return nil
}

// tableMagics are the last eight bytes of table formats that Loam does not read.
var tableMagics = map[uint64]struct{ engine, what string }{
	// Pebble's, too, in its old formats
	0x88e241b785f4cff7: {"RocksDB or Pebble", "a RocksDB table"},
	0x8242229663bf9564: {"RocksDB", "a RocksDB plain table"},
	0x4f3418eb7a8f13b8: {"RocksDB", "an old RocksDB plain table"},
	0x926789d0c5f17873: {"RocksDB", "a RocksDB cuckoo table"},
	0xb3aa9ff0b3aa9ff0: {"Pebble", "a Pebble table"},
	0:                  {"", "zeros, as if it was never written"},
}

// Table says what a file is that ends with magic, which is of no format that is read.
func Table(magic uint64) string {
	if t, ok := tableMagics[magic]; ok {
		return t.what
	}
	return "no table format that is known"
}

// TableOwner names the engine that wrote the table of size bytes, "" if none is known.
func TableOwner(r io.ReaderAt, size int64) (engine string, err error) {
	var tail [8]byte
	if size < int64(len(tail)) {
		return "", nil
	}
	if err := base.ReadFull(r, tail[:], size-int64(len(tail))); err != nil {
		return "", err
	}
	if t, ok := tableMagics[binary.LittleEndian.Uint64(tail[:])]; ok {
		return t.engine, nil
	}
	badger, err := isBadgerTable(r, size)
	if badger {
		engine = "Badger"
	}
	return engine, err
}

// isBadgerTable follows the end of a Badger table backwards: the length of a checksum (u32, high
// byte first), the checksum, a protocol buffer, and the length of an index.
func isBadgerTable(r io.ReaderAt, size int64) (bool, error) {
	const maxSum = 16 // bytes of the protocol buffer
	b := make([]byte, min(size, 4+maxSum+4))
	if err := base.ReadFull(r, b, size-int64(len(b))); err != nil {
		return false, err
	}
	n := int(binary.BigEndian.Uint32(b[len(b)-4:]))
	if n < 2 || n > maxSum || len(b) < 4+n+4 {
		return false, nil
	}
	sum, rest := b[len(b)-4-n:len(b)-4], b[:len(b)-4-n]
	// Field 1, the algorithm, is left out where it is 0; field 2 is the sum: varints both.
	if sum[0] == 0x08 && len(sum) > 2 {
		sum = sum[2:]
	}
	_, used := binary.Uvarint(sum[1:])
	if sum[0] != 0x10 || used != len(sum)-1 {
		return false, nil
	}
	index := int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	return index > 0 && index <= size-int64(4+n+4), nil
}
