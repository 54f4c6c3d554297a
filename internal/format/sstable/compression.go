package sstable

import "strings"

// Compression names how blocks are packed.
type Compression uint8

// The compressions, with LevelDB's codec bytes.
const (
	NoCompression Compression = 0
	Snappy        Compression = 1
	Zstd          Compression = 2
)

// PerLevel is the compression of each level of a tree: two bits a level, the lowest for
// level 0, of Compression+1. The first level without one, 0, ends the list; it and those
// below it have the compression of the last level before it. 0 is no list.
type PerLevel uint16

// CompressionNames are the names of a level's two bits.
var CompressionNames = []string{"default", "none", "snappy", "zstd"}

const (
	levelBits = 2
	levelMask = 1<<levelBits - 1
	maxLevels = 7
	// invalidList is a PerLevel that is not Valid.
	invalidList PerLevel = 1 << 15
)

// ByLevel lists the compressions of level 0 and the levels below it, each of which is a
// list of one; the last one counts for all deeper levels too. What is no such list is not
// Valid.
func ByLevel(levels []PerLevel) (list PerLevel) {
	if len(levels) > maxLevels {
		return invalidList
	}
	for i, l := range levels {
		if l == 0 || l > levelMask {
			return invalidList
		}
		list |= l << (levelBits * i)
	}
	return list
}

// Valid reports whether p is 0 or a list of up to seven compressions.
func (p PerLevel) Valid() bool {
	if p >= invalidList>>1 {
		return false
	}
	for ; p != 0; p >>= levelBits {
		if p&levelMask == 0 {
			return false
		}
	}
	return true
}

// At is the compression of a level. REQUIRES: p is Valid and not 0.
func (p PerLevel) At(level int) Compression {
	c := p & levelMask
	for ; level > 0 && p>>levelBits != 0; level-- {
		p >>= levelBits
		c = p & levelMask
	}
	return Compression(c - 1)
}

// String is what Options.Set takes: "none", "snappy" or "zstd", or several of them with
// commas between.
func (p PerLevel) String() string {
	if !p.Valid() {
		return "unknown"
	}
	names := []string{CompressionNames[p&levelMask]}
	for p >>= levelBits; p != 0; p >>= levelBits {
		names = append(names, CompressionNames[p&levelMask])
	}
	return strings.Join(names, ",")
}
