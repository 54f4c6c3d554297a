// Package owner tells which engine the files of a directory belong to, before anything
// opens, changes or removes them.
package owner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/foreign"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Check fails with base.ErrNotADatabase when dir belongs to another engine, whose name the error
// says. Everything that opens, repairs, converts or removes a database calls it first, before it
// takes the lock; it writes nothing. A missing or empty directory has no owner.
//
//  1. A directory CURRENT is Loam's: no other engine makes one.
//  2. Files that only other engines make decide next: markers, OPTIONS, Badger's MANIFEST and key
//     registry.
//  3. Then the records of the MANIFEST that CURRENT names, which LevelDB and its descendants share.
//  4. Where CURRENT is missing, damaged or names no MANIFEST, the contents of all files with names
//     of a database decide. At least one file must be Loam's or LevelDB's, and none another
//     engine's.
//
// Check runs beside a writer, too, which may create or upgrade the database meanwhile, or cut a log
// that it closes: then a read finds the end of the file, and Check begins again.
func Check(fsys vfs.FS, dir string) error {
	err := check(fsys, dir)
	for again := 3; again > 0 && errors.Is(err, io.ErrUnexpectedEOF); again-- {
		err = check(fsys, dir)
	}
	if errors.Is(err, base.ErrNotADatabase) || errors.Is(err, vfs.ErrNotRegular) {
		if native, nerr := current.IsNative(fsys, dir); native && nerr == nil {
			return nil
		}
	}
	return err
}

func check(fsys vfs.FS, dir string) error {
	switch native, err := current.IsNative(fsys, dir); {
	case native || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	if err := foreign.CheckDir(fsys, dir, names); err != nil {
		return err
	}
	cur, err := current.Read(fsys, dir)
	if err == nil {
		known, err := checkRecords(fsys, dir, cur.Manifest)
		if known || err != nil {
			return err
		}
	} else if errors.Is(err, base.ErrNotADatabase) || !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, base.ErrCorruption) {
		return err
	}
	return checkContents(fsys, dir, names, !errors.Is(err, fs.ErrNotExist), "")
}

// CheckReplaceable is Check for calls that remove or replace CURRENT: they need another file of
// Loam's or LevelDB's beside a CURRENT that names no MANIFEST, unless a power cut left it empty or
// zeros.
func CheckReplaceable(fsys vfs.FS, dir string) error {
	if err := Check(fsys, dir); err != nil {
		return err
	}
	c, err := current.Read(fsys, dir)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, base.ErrNotADatabase):
		return nil // a CURRENT that is no file counts as damaged
	case !errors.Is(err, base.ErrCorruption):
		return err
	}
	blank, err := isBlank(fsys, dir, c.File)
	if err != nil || blank {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	return checkContents(fsys, dir, names, false, c.File)
}

// isBlank reports whether a file begins with nothing but zeros.
func isBlank(fsys vfs.FS, dir, name string) (bool, error) {
	f, err := current.OpenRegular(fsys, dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, min(f.Size(), 512))
	if err := base.ReadFull(f, b, 0); err != nil {
		return false, fmt.Errorf("reading %s: %w", name, err)
	}
	return len(bytes.Trim(b, "\x00")) == 0, nil
}

// checkContents decides by the contents of files with names of a database. own: CURRENT is there,
// and counts; strange: a file with contents that nobody knows, "" for none yet.
func checkContents(fsys vfs.FS, dir string, names []string, own bool, strange string) error {
	for _, name := range names {
		switch is, err := Contents(fsys, dir, name); {
		case err != nil:
			return err
		case is.Engine != "":
			return foreign.Refused(dir, is.Engine, name)
		case is.Own:
			own = true
		case !is.Empty && strange == "":
			strange = name
		}
	}
	switch {
	case own:
		return nil
	case strange != "":
		return fmt.Errorf("%w: %s has %s, which neither Loam nor LevelDB wrote, as far as its "+
			"contents tell, and no file that they did",
			base.ErrNotADatabase, dir, strange)
	}
	return foreign.CheckNew(fsys, dir, names)
}

// Content is what the contents of a file with a name of a database tell.
type Content struct {
	Own    bool   // Loam or LevelDB wrote it
	Engine string // another engine wrote it
	// it begins with nothing but zeros, as a power cut leaves it, it is no regular file, or its
	// name is no database's
	Empty bool
}

// Contents looks at a file of a database's directory; its name may be of either format. CURRENT and
// LOCK tell nothing. RocksDB and Pebble frame the records of their logs as LevelDB does.
func Contents(fsys vfs.FS, dir, name string) (c Content, err error) {
	t, num := base.LevelDB.ParseFileName(name)
	native := t == base.FileUnknown
	if native {
		t, num = base.Native.ParseFileName(name)
	}
	switch t {
	case base.FileTable, base.FileLog, base.FileManifest, base.FileValues:
	default:
		return Content{Empty: true}, nil
	}
	f, err := current.OpenRegular(fsys, dir, name)
	// gone since it was listed
	if errors.Is(err, base.ErrNotADatabase) || errors.Is(err, fs.ErrNotExist) {
		return Content{Empty: true}, nil
	}
	if err != nil {
		return c, err
	}
	defer f.Close()
	h, err := seal.Read(f)
	switch {
	case f.Size() == 0:
		return Content{Empty: true}, nil
	case h != nil || err != nil && !errors.Is(err, base.ErrCorruption): // nobody else seals files
		return Content{Own: h != nil}, err
	case t == base.FileTable:
		c, err = tableContents(f, native)
	case t == base.FileValues:
		c, err = valuesContents(f)
	case t == base.FileLog && native:
		c, err = framed(record.NewChainReader(f, f.Size(), name, num, 0), f)
	default:
		c, err = framed(record.NewReader(f, f.Size(), name), f)
	}
	if err == nil && c.Own && t == base.FileManifest && !native {
		if _, err = checkRecords(fsys, dir, name); errors.Is(err, base.ErrNotADatabase) {
			return Content{Engine: "RocksDB or Pebble"}, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("reading %s: %w", name, err)
	}
	return c, err
}

// valuesContents goes by the head of a value file. After a crash it may be zeros.
func valuesContents(f vfs.ReadFile) (c Content, err error) {
	b := make([]byte, min(f.Size(), int64(len(base.ValueFileMagic))))
	if err := base.ReadFull(f, b, 0); err != nil {
		return c, err
	}
	return Content{Own: strings.HasPrefix(base.ValueFileMagic, string(b)),
		Empty: len(bytes.Trim(b, "\x00")) == 0}, nil
}

// tableContents goes by the magic at the end of a table. A table that a crash cut short has none:
// the name is enough in the native format, and the first entry, or frame of a run, in LevelDB's.
func tableContents(f vfs.ReadFile, native bool) (c Content, err error) {
	b := make([]byte, min(f.Size(), 512))
	n := min(8, len(b))
	if err = base.ReadFull(f, b[:n], f.Size()-int64(n)); err != nil {
		return c, err
	}
	magic := binary.LittleEndian.Uint64(append(b[:n:n], make([]byte, 8)...))
	if magic == base.LevelDBTableMagic || magic == base.NativeTableMagic {
		return Content{Own: true}, nil
	}
	if c.Engine, err = foreign.TableOwner(f, f.Size()); c.Engine != "" || err != nil {
		return c, err
	}
	if err = base.ReadFull(f, b, 0); err != nil {
		return c, err
	}
	c.Own = native || beginsWithEntry(b) || beginsWithEntry(snappyLiteral(b)) ||
		beginsWithEntry(inflated(b)) || len(b) > 2 && beginsWithEntry(inflated(b[2:]))
	c.Empty = !c.Own && len(bytes.Trim(b, "\x00")) == 0
	if !c.Own && !c.Empty {
		if c.Own = beginsWithFrame(b); !c.Own {
			c.Own, err = isRun(f)
		}
	}
	return c, err
}

// frameHead is the length of the head of a frame of a sorted run, as package ingest writes it: the
// length of the frame and its checksum.
const frameHead = 8

// beginsWithFrame reports whether b may be the beginning of a sorted run, as a bulk load leaves it
// when the power is cut: a frame, of the usual length, and in it an entry.
func beginsWithFrame(b []byte) bool {
	if len(b) <= frameHead {
		return false
	}
	const longest = 1 << 24 // no text has so small a number
	key, rest := uvarint(b[frameHead:])
	value, rest := uvarint(rest)
	size := uint64(binary.LittleEndian.Uint32(b))
	return rest != nil && size < longest && key < size && value/2 < size-key
}

// isRun reports whether a file begins with a whole frame of a sorted run, of any length, as a bulk
// load leaves it when the process is killed.
func isRun(f vfs.ReadFile) (bool, error) {
	if f.Size() <= frameHead {
		return false, nil
	}
	head := make([]byte, frameHead)
	if err := base.ReadFull(f, head, 0); err != nil {
		return false, err
	}
	size, sum := int64(binary.LittleEndian.Uint32(head)), uint32(0)
	if size == 0 || size > f.Size()-frameHead {
		return false, nil
	}
	for at, buf := int64(0), make([]byte, min(size, 64<<10)); at < size; {
		b := buf[:min(size-at, int64(len(buf)))]
		if err := base.ReadFull(f, b, frameHead+at); err != nil {
			return false, err
		}
		sum, at = base.CRCUpdate(sum, b), at+int64(len(b))
	}
	return sum == binary.LittleEndian.Uint32(head[4:]), nil
}

// beginsWithEntry reports whether b is the beginning of a block of a LevelDB table: an entry that
// shares no bytes with the previous one, and whose key ends with a trailer.
func beginsWithEntry(b []byte) bool {
	shared, b := uvarint(b)
	n, b := uvarint(b)
	_, b = uvarint(b) // length of the value
	if b == nil || shared != 0 || n < base.TrailerLen || n > 1<<20 {
		return false
	}
	return n > uint64(len(b)) || b[n-base.TrailerLen] <= byte(base.KindSet)
}

// snappyLiteral returns what the literal at the beginning of a snappy block says, nil if there is
// none.
func snappyLiteral(b []byte) []byte {
	size, b := uvarint(b)
	if size == 0 || len(b) == 0 || b[0]&3 != 0 {
		return nil
	}
	n, head := int(b[0]>>2)+1, 1
	if n > 60 { // in one to four further bytes
		if head += n - 60; len(b) < head {
			return nil
		}
		n = 1
		for i := range head - 1 {
			n += int(b[1+i]) << (8 * i)
		}
	}
	return b[head:min(len(b), head+n)]
}

// inflated returns the first bytes of a deflated block, of Minecraft's codec 4; codec 2 has two
// bytes in front. A block whose beginning has no whole code table gives none.
func inflated(b []byte) []byte {
	out := make([]byte, 64)
	n, _ := io.ReadFull(flate.NewReader(bytes.NewReader(b)), out)
	return out[:n]
}

// uvarint cuts a number off the front of b. rest is nil at the end.
func uvarint(b []byte) (v uint64, rest []byte) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n == len(b) {
		return 0, nil
	}
	return v, b[n:]
}

// framed reports what a file of records is: one of Loam or LevelDB if a record is whole, or if the
// first one was begun and a crash cut it short.
func framed(r interface {
	Next() ([]byte, error)
	Resume() bool
}, f vfs.ReadFile) (c Content, err error) {
	_, err = r.Next()
	switch {
	case err == nil:
		return Content{Own: true}, nil
	case err == io.EOF:
		return Content{Empty: true}, nil
	case errors.Is(err, base.ErrEncryption):
		return Content{Own: true}, nil
	case !errors.Is(err, base.ErrCorruption):
		return c, err
	case r.Resume():
		return Content{Own: true}, nil
	}
	const headLen = 7 // checksum, length, type
	head := make([]byte, min(f.Size(), 512))
	if len(head) < headLen {
		return Content{Empty: true}, nil
	}
	if err = base.ReadFull(f, head, 0); err != nil {
		return c, err
	}
	if len(bytes.Trim(head, "\x00")) == 0 {
		return Content{Empty: true}, nil
	}
	const full, first, begin = 1, 2, 5
	n, typ := binary.LittleEndian.Uint16(head[4:]), head[6]
	c.Own = n <= 1<<15 && (typ == full || typ == first || typ == begin)
	return c, nil
}

// maxRecords bounds the records that Check reads of a MANIFEST: others write tags of their own with
// their first table.
const maxRecords = 256

// checkRecords fails with base.ErrNotADatabase when another engine wrote a LevelDB MANIFEST. known
// is false if no record of it can be read.
func checkRecords(fsys vfs.FS, dir, name string) (known bool, err error) {
	f, err := current.OpenRegular(fsys, dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := record.NewReader(f, f.Size(), name)
	for range maxRecords {
		rec, err := r.Next()
		if errors.Is(err, base.ErrCorruption) && r.Resume() {
			continue
		}
		if err == io.EOF || errors.Is(err, base.ErrCorruption) {
			break
		}
		if err != nil {
			return false, fmt.Errorf("reading %s: %w", name, err)
		}
		var e manifest.Edit
		err = e.Decode(rec, base.LevelDB)
		if manifest.IsBatch(rec, base.LevelDB) {
			return true, nil // a log has the name, which its reader tells
		}
		if errors.Is(err, base.ErrNotADatabase) {
			return true,
				fmt.Errorf("%s: %w: open it with the engine that wrote it, or choose another "+
					"directory", dir, err)
		}
		known = known || err == nil
	}
	return known, nil
}
