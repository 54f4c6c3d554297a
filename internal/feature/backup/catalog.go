package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Info describes a backup of a Folder.
type Info struct {
	ID       uint64
	Created  time.Time
	Database string // directory of the database
	Format   string // of the database: "native" or "leveldb"
	Files    int    // files of the database
	Bytes    uint64 // their size
	NewBytes uint64 // of these, what no earlier backup had
	Err      error  // why the backup cannot be read, or nil; then only ID is known
}

// objectID names the contents of a file: there is one file in objectsDir for all that have them.
type objectID struct {
	sum  [sha256.Size]byte
	size int64
}

// name is the object's file name: its checksum and size.
func (o objectID) name() string { return fmt.Sprintf("%x-%d", o.sum, o.size) }

// parseObject is the inverse of name.
func parseObject(name string) (o objectID, ok bool) {
	sum, size, _ := strings.Cut(name, "-")
	if len(sum) != 2*sha256.Size {
		return o, false
	}
	for i := range o.sum {
		b, err := strconv.ParseUint(sum[2*i:2*i+2], 16, 8)
		if err != nil {
			return o, false
		}
		o.sum[i] = byte(b)
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if o.size = n; err != nil || n < 0 || o.name() != name {
		return o, false
	}
	return o, true
}

// identity is what a file has of the source's file system. Tables and full logs are never written
// again: one with the identity of a file that was read before is that file.
type identity struct {
	fileid.ID
	modified int64 // ns since 1970
}

// identify returns the identity of a file; zero if it is not known.
func identify(info fs.FileInfo) identity {
	id, ok := fileid.Of(info)
	if !ok {
		return identity{}
	}
	return identity{id, info.ModTime().UnixNano()}
}

// saved is a file of a backup.
type saved struct {
	name   string // within the database, with slashes
	object objectID
	// crc is that of a table that has one in the MANIFEST.
	crc    uint32
	hasCRC bool
	source identity // zero: not known
}

// fingerprint is the known attributes of a file before it is read. Files of equal contents have the
// same one, but for tables that a MANIFEST has no checksum of.
type fingerprint struct {
	size   int64
	crc    uint32
	hasCRC bool
}

func (s *saved) fingerprint() fingerprint { return fingerprint{s.object.size, s.crc, s.hasCRC} }

// catalog is what a backup consists of. It is written last: a backup without one does not exist.
type catalog struct {
	id       uint64
	created  int64 // ns since 1970
	format   base.Format
	database string
	newBytes uint64
	files    []saved // ascending names
}

// A catalog is magic, the version and what encode appends, and the SHA-256 of all before it, which
// each version has at the end.
const (
	catalogMagic   = "LOAMBKUP"
	catalogVersion = 1
	kindCatalog    = "catalog of a backup" // in Corruption errors
	maxCatalog     = 1 << 28               // bytes
	maxDatabase    = 1 << 16               // bytes of catalog.database
	minSaved       = 1 + 1 + 1 + sha256.Size + 1
)

// Bits before a file's optional fields.
const (
	hasCRC      = 1 << 0
	hasIdentity = 1 << 1
)

func (c *catalog) encode() []byte {
	b := []byte(catalogMagic)
	b = binary.AppendUvarint(b, catalogVersion)
	b = binary.AppendUvarint(b, c.id)
	b = binary.AppendVarint(b, c.created)
	b = append(b, byte(c.format))
	b = base.AppendBytes(b, []byte(c.database))
	b = binary.AppendUvarint(b, c.newBytes)
	b = binary.AppendUvarint(b, uint64(len(c.files)))
	for i := range c.files {
		f := &c.files[i]
		b = base.AppendBytes(b, []byte(f.name))
		b = binary.AppendUvarint(b, uint64(f.object.size))
		b = append(b, f.object.sum[:]...)
		flags := byte(0)
		if f.hasCRC {
			flags |= hasCRC
		}
		if f.source != (identity{}) {
			flags |= hasIdentity
		}
		b = append(b, flags)
		if f.hasCRC {
			b = binary.LittleEndian.AppendUint32(b, f.crc)
		}
		if flags&hasIdentity != 0 {
			b = binary.AppendUvarint(b, f.source.Dev)
			b = binary.AppendUvarint(b, f.source.Ino)
			b = binary.AppendVarint(b, f.source.modified)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeCatalog reads the catalog of backup id. Its memory is bounded by the length of b.
func decodeCatalog(b []byte, id uint64) (*catalog, error) {
	corrupt := func(reason string) error { return base.Corruptf(kindCatalog, "%s", reason) }
	end := len(b) - sha256.Size
	if end < len(catalogMagic) {
		return nil, corrupt("it is too short")
	}
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:]) {
		return nil, corrupt("its checksum is wrong")
	}
	d := base.Cutter{B: b[:end]}
	if string(d.Bytes(len(catalogMagic))) != catalogMagic {
		return nil, corrupt("it does not begin as one")
	}
	if v := d.Uvarint(); v > catalogVersion && !d.Bad {
		return nil, fmt.Errorf("%w: the catalog of backup %d has version %d", base.ErrNewerFormat,
			id, v)
	}
	c := &catalog{id: d.Uvarint(), created: d.Varint(), format: base.Format(d.Byte()),
		database: d.String(maxDatabase), newBytes: d.Uvarint()}
	n := d.Uvarint()
	switch {
	case d.Bad || n > uint64(len(d.B)/minSaved):
		return nil, corrupt("it ends too early")
	case c.id != id:
		return nil, corrupt(fmt.Sprintf("it is that of backup %d", c.id))
	case c.format != base.LevelDB && c.format != base.Native:
		return nil, corrupt("the format of the database is unknown")
	}
	c.files = make([]saved, n)
	for i := range c.files {
		c.files[i] = cutSaved(&d)
	}
	if d.Bad || len(d.B) > 0 {
		return nil, corrupt("its length and the number of files do not fit")
	}
	if reason := c.check(); reason != "" {
		return nil, corrupt(reason)
	}
	return c, nil
}

// check returns the defect of the files' names, or "". Restore writes under these names.
func (c *catalog) check() string {
	pointers, manifests, total := 0, 0, uint64(0)
	for i := range c.files {
		f := &c.files[i]
		if i > 0 && f.name <= c.files[i-1].name {
			return fmt.Sprintf("the name %q is out of order", f.name)
		}
		t, num := c.format.ParseFileName(f.name)
		switch {
		case f.name == current.FileOf(c.format):
			pointers++
		case t == base.FileManifest && num <= base.MaxFileNum:
			manifests++
		case num <= base.MaxFileNum && slices.Contains([]base.FileType{base.FileTable,
			base.FileLog, base.FileValues}, t):
		default:
			return fmt.Sprintf("%q is no name of a database's file", f.name)
		}
		if total += uint64(f.object.size); total > math.MaxInt64 {
			return "the files are too large"
		}
	}
	if pointers != 1 || manifests != 1 {
		return "CURRENT or the MANIFEST is missing"
	}
	return ""
}

// bytes is the size of the files.
func (c *catalog) bytes() (n uint64) {
	for i := range c.files {
		n += uint64(c.files[i].object.size)
	}
	return n
}

func (c *catalog) info() Info {
	return Info{
		ID: c.id, Created: time.Unix(0, c.created), Database: c.database, Format: c.format.String(),
		Files: len(c.files), Bytes: c.bytes(), NewBytes: c.newBytes,
	}
}

// cutSaved cuts a file off. No name of a database's file is longer than 64 bytes.
func cutSaved(d *base.Cutter) (f saved) {
	f.name = d.String(64)
	size := d.Uvarint()
	d.Bad = d.Bad || size > math.MaxInt64
	f.object.size = int64(size)
	copy(f.object.sum[:], d.Bytes(sha256.Size))
	flags := d.Byte()
	d.Bad = d.Bad || flags&^(hasCRC|hasIdentity) != 0
	if f.hasCRC = flags&hasCRC != 0; f.hasCRC {
		if b := d.Bytes(4); b != nil {
			f.crc = binary.LittleEndian.Uint32(b)
		}
	}
	if flags&hasIdentity != 0 {
		f.source = identity{fileid.ID{Dev: d.Uvarint(), Ino: d.Uvarint()}, d.Varint()}
		d.Bad = d.Bad || f.source == identity{} // which encode does not write
	}
	return f
}

// catalogName is the name of a backup's catalog.
func catalogName(id uint64) string { return numbered(id, catalogExt) }

func numbered(n uint64, ext string) string { return fmt.Sprintf("%06d.%s", n, ext) }

// parseNumbered tells the number and the extension of a name as numbered makes it.
func parseNumbered(name string) (n uint64, ext string, ok bool) {
	digits, ext, ok := strings.Cut(name, ".")
	n, err := strconv.ParseUint(digits, 10, 62)
	return n, ext, ok && err == nil && n > 0 && numbered(n, ext) == name
}

// readCatalog reads the catalog of backup id from the folder dir.
func readCatalog(fsys vfs.FS, dir string, id uint64) (*catalog, error) {
	name := catalogName(id)
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := f.Size()
	if size > maxCatalog || vfs.Stored(f, size) < size {
		return nil, base.Corruptf(kindCatalog, "it has %d bytes, or holes", size).At(name, 0, size)
	}
	b := make([]byte, size)
	if err := base.ReadFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	c, err := decodeCatalog(b, id)
	return c, base.LocateCorruption(err, name, 0, size)
}
