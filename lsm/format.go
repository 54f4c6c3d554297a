package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Compression says how the blocks of tables are packed: all in one way, or by level, see
// CompressionByLevel.
type Compression uint16

// The compressions of tables.
const (
	// DefaultCompression is SnappyCompression.
	DefaultCompression Compression = iota
	// NoCompression stores blocks as they are.
	NoCompression
	// SnappyCompression packs blocks with Snappy, which every LevelDB reads.
	SnappyCompression
	// ZstdCompression packs blocks with Zstandard, which LevelDB reads since 1.23.
	ZstdCompression
)

// CompressionByLevel is the compression of level 0 and of up to six levels below it; the last one
// counts for all deeper levels. Without levels it is DefaultCompression; Open refuses longer lists,
// and DefaultCompression or a list in one.
func CompressionByLevel(levels ...Compression) Compression {
	list := make([]sstable.PerLevel, len(levels))
	for i, l := range levels {
		list[i] = l.perLevel()
	}
	return Compression(sstable.ByLevel(list))
}

// String is what Options.Set takes: "none", "snappy" or "zstd", or several of them, for level 0
// and the levels below it, with commas between.
func (c Compression) String() string { return c.perLevel().String() }

func (c Compression) perLevel() sstable.PerLevel { return sstable.PerLevel(c) }

// Format is the format of a database's files.
type Format uint8

// The formats of databases.
const (
	// DefaultFormat is FormatNative.
	DefaultFormat Format = iota
	// FormatLevelDB is LevelDB's format, which every LevelDB opens. It has no keyspaces, merges,
	// range deletes, times to live or encryption, and Options.LargeValue has no effect.
	FormatLevelDB
	// FormatNative is Loam's own format, which no other engine opens.
	FormatNative
)

var formatNames = []string{"default", "leveldb", "native"}

// String is the name that Options.Set takes: "leveldb" or "native".
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return "unknown"
}

func (f Format) dir() base.Format {
	if f == FormatLevelDB {
		return base.LevelDB
	}
	return base.Native
}

// MmapMode says whether tables are read in place, where their files are mapped.
type MmapMode uint8

// The modes of Options.Mmap.
const (
	// MmapAuto maps tables on 64-bit Linux and macOS, on file systems that are known to be local,
	// but not beside Resources with a bound on memory.
	MmapAuto MmapMode = iota
	// MmapOn maps tables on all file systems of these systems.
	MmapOn
	// MmapOff reads tables by system calls only.
	MmapOff
)

var mmapNames = []string{"auto", "on", "off"}

// String is the name that Options.Set takes: "auto", "on" or "off".
func (m MmapMode) String() string {
	if int(m) < len(mmapNames) {
		return mmapNames[m]
	}
	return "unknown"
}
