package base

import (
	"fmt"
	"strconv"
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

// ParseFileName tells what a base name stands for. Names with a path
// separator, a sign, or a number that does not fit 63 bits are FileUnknown.
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

func parseNumber(s string) (uint64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return n, err == nil
}
