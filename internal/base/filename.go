package base

import (
	"fmt"
	"math"
	"strings"
)

// FileType is what a name in a database directory stands for.
type FileType uint8

// The file types of a LevelDB directory.
const (
	FileUnknown  FileType = iota
	FileLog               // %06d.log: write-ahead log
	FileTable             // %06d.ldb, or %06d.sst of old LevelDBs
	FileManifest          // MANIFEST-%06d
	FileCurrent           // CURRENT
	FileLock              // LOCK
	FileInfoLog           // LOG, LOG.old
	FileTemp              // %06d.dbtmp
)

// Fixed names.
const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"
	InfoLogName = "LOG"
)

// FileName is the name of the file of type t with number n, without directory.
func FileName(t FileType, n uint64) string {
	switch t {
	case FileLog:
		return fmt.Sprintf("%06d.log", n)
	case FileTable:
		return fmt.Sprintf("%06d.ldb", n)
	case FileManifest:
		return fmt.Sprintf("MANIFEST-%06d", n)
	case FileTemp:
		return fmt.Sprintf("%06d.dbtmp", n)
	case FileCurrent:
		return CurrentName
	case FileLock:
		return LockName
	case FileInfoLog:
		return InfoLogName
	}
	return ""
}

// OldTableName is the name that LevelDB before 1.14 gave table n.
func OldTableName(n uint64) string { return fmt.Sprintf("%06d.sst", n) }

// ParseFileName tells what a base name stands for. A name counts only when it
// is written as FileName and OldTableName write it: "2.log" and "0000002.log"
// are FileUnknown, since they would mean the same as "000002.log".
func ParseFileName(name string) (t FileType, n uint64) {
	switch name {
	case CurrentName:
		return FileCurrent, 0
	case LockName:
		return FileLock, 0
	case InfoLogName, InfoLogName + ".old":
		return FileInfoLog, 0
	}
	if rest, ok := strings.CutPrefix(name, "MANIFEST-"); ok {
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
	switch ext {
	case "log":
		return FileLog, n
	case "ldb", "sst":
		return FileTable, n
	case "dbtmp":
		return FileTemp, n
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
