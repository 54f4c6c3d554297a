package base

import (
	"fmt"
	"math"
	"strings"
)

// Format is the format of a database directory: the names of its files, and what is
// written into them.
type Format uint8

// The formats.
const (
	LevelDB Format = iota
	Native
)

// String is the format's name as an option.
func (f Format) String() string {
	if f == Native {
		return "native"
	}
	return "leveldb"
}

// The last eight bytes of tables, with the low byte first. The native magic is "loamtabl".
const (
	LevelDBTableMagic = 0xdb4775248b80fb57
	NativeTableMagic  = 0x6c6261746d616f6c
)

// MaxFileNum bounds file numbers read from disk, so that counting on from one of them can never
// wrap.
const MaxFileNum = 1<<62 - 1

// FileType is what a name in a database directory stands for.
type FileType uint8

// The file types of a database directory, with their names in LevelDB's format and,
// where they differ, in the native one. No engine knows a native name but CURRENT and
// LOCK. A native CURRENT is a directory: LevelDB, goleveldb, RocksDB and Pebble fail to
// read it, and their repairers fail to replace it.
const (
	FileUnknown  FileType = iota
	FileLog               // %06d.log, %06d.wal: write-ahead log
	FileTable             // %06d.ldb, or %06d.sst of old LevelDBs; %06d.loam
	FileManifest          // MANIFEST-%06d, %06d.manifest
	FileCurrent           // CURRENT
	FileLock              // LOCK
	FileInfoLog           // LOG, LOG.old; none
	FileTemp              // %06d.dbtmp; none
	FileValues            // none; %06d.val: values that compactions copied
)

// Fixed names.
const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"
	InfoLogName = "LOG"
	// LoadName is there while a dump is being loaded, in both formats.
	LoadName     = "LOADING"
	LoadTempName = LoadName + ".tmp"
	// InspectName is the socket of an open database, in both formats.
	InspectName = "INSPECT"
)

// extensions are the suffixes of numbered files. The first one of a type is that of
// new files.
var extensions = [...][]struct {
	t   FileType
	ext string
}{
	LevelDB: {{FileLog, "log"}, {FileTable, "ldb"}, {FileTable, "sst"}, {FileTemp, "dbtmp"}},
	Native: {{FileLog, "wal"}, {FileTable, "loam"}, {FileManifest, "manifest"},
		{FileValues, "val"}},
}

const levelDBManifest = "MANIFEST-"

// FileName is the name of the file of type t with number n, without directory; "" if the
// format has none.
func (f Format) FileName(t FileType, n uint64) string {
	switch {
	case t == FileCurrent:
		return CurrentName
	case t == FileLock:
		return LockName
	case t == FileInfoLog && f == LevelDB:
		return InfoLogName
	case t == FileManifest && f == LevelDB:
		return fmt.Sprintf("%s%06d", levelDBManifest, n)
	}
	for _, e := range extensions[f] {
		if e.t == t {
			return fmt.Sprintf("%06d.%s", n, e.ext)
		}
	}
	return ""
}

// TableNaming is how a table's file is named. It says nothing about the table's format.
type TableNaming uint8

// The names of tables.
const (
	NamedLDB  TableNaming = iota // %06d.ldb
	NamedSST                     // %06d.sst, as LevelDB before 1.14 named tables
	NamedLoam                    // %06d.loam
)

// TableNamings are the names that a table may have, that of new ones first.
func (f Format) TableNamings() []TableNaming {
	if f == Native {
		return []TableNaming{NamedLoam}
	}
	return []TableNaming{NamedLDB, NamedSST}
}

var tableExtensions = [...]string{NamedLDB: "ldb", NamedSST: "sst", NamedLoam: "loam"}

// Name is the name of table n.
func (t TableNaming) Name(n uint64) string { return fmt.Sprintf("%06d.%s", n, tableExtensions[t]) }

// ParseTableName tells how the table is named that has this name, and its number.
func ParseTableName(name string) (t TableNaming, n uint64, ok bool) {
	digits, ext, _ := strings.Cut(name, ".")
	for i, e := range tableExtensions {
		if e == ext {
			n, ok = parseNumber(digits)
			return TableNaming(i), n, ok
		}
	}
	return 0, 0, false
}

// ParseFileName returns the kind and number of a base name. A name counts only when it
// is written as FileName and Name write it: "2.log" and "0000002.log"
// are FileUnknown, since they would mean the same as "000002.log". A name of the other
// format is FileUnknown, too.
func (f Format) ParseFileName(name string) (t FileType, n uint64) {
	switch name {
	case CurrentName:
		return FileCurrent, 0
	case LockName:
		return FileLock, 0
	case InfoLogName, InfoLogName + ".old":
		if f == LevelDB {
			return FileInfoLog, 0
		}
	}
	if rest, ok := strings.CutPrefix(name, levelDBManifest); ok && f == LevelDB {
		if n, ok := parseNumber(rest); ok {
			return FileManifest, n
		}
		return FileUnknown, 0
	}
	digits, ext, ok := strings.Cut(name, ".")
	if !ok {
		return FileUnknown, 0
	}
	n, ok = parseNumber(digits)
	if !ok {
		return FileUnknown, 0
	}
	for _, e := range extensions[f] {
		if e.ext == ext {
			return e.t, n
		}
	}
	return FileUnknown, 0
}

// parseNumber reads a number as %06d writes it, up to 64 bits.
func parseNumber(s string) (uint64, bool) {
	const width = 6
	if len(s) < width || len(s) > width && s[0] == '0' {
		return 0, false
	}
	n := uint64(0)
	for _, c := range []byte(s) {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, true
}
