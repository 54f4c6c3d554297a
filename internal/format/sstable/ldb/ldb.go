// Package ldb reads and writes LevelDB's table format, byte-compatible both
// ways. A table is
//
//	data blocks          rows of internal keys (package block)
//	filter blocks        LevelDB's, and ours: see below
//	properties           ours
//	metaindex block      name -> handle of the blocks above
//	index block          separator key -> handle of each data block
//	footer               48 bytes: the handles of the last two, the magic
//
// Our own blocks stand under names in the metaindex that LevelDB does not ask
// for and skips.
//
// A Reader is safe for concurrent use, up to Close. A source and a Writer
// belong to one goroutine at a time.
package ldb

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Magic ends every table.
const Magic = base.LevelDBTableMagic

// FooterLen is the length of the footer.
const FooterLen = 2*block.MaxHandleLen + 8

// Names in the metaindex, in the order in which they must be written.
const (
	levelDBFilterKey = filter.LevelDBName
	filterKey        = "loam.filter.v1"
	propsKey         = "loam.props.v1"
)

const format = "ldb"

// appendFooter appends the footer: both handles, zeros up to 40 bytes, magic.
func appendFooter(dst []byte, metaindex, index block.Handle) []byte {
	var f [FooterLen]byte
	p := block.AppendHandle(f[:0], metaindex)
	block.AppendHandle(p, index)
	binary.LittleEndian.PutUint64(f[FooterLen-8:], Magic)
	return append(dst, f[:]...)
}

func parseFooter(b []byte) (metaindex, index block.Handle, err error) {
	if m := binary.LittleEndian.Uint64(b[FooterLen-8:]); m != Magic {
		return metaindex, index, base.Corruptf("table footer", "magic is %#x", m)
	}
	b = b[:FooterLen-8]
	metaindex, n := block.DecodeHandle(b)
	if n == 0 {
		return metaindex, index, base.Corruptf("table footer", "malformed metaindex handle")
	}
	index, m := block.DecodeHandle(b[n:])
	if m == 0 {
		return metaindex, index, base.Corruptf("table footer", "malformed index handle")
	}
	for _, c := range b[n+m:] {
		if c != 0 {
			return metaindex, index, base.Corruptf("table footer", "padding is not zero")
		}
	}
	return metaindex, index, nil
}

// DO NOT CHANGE THESE VALUES: tags of the properties block, which is pairs of
// varints (tag, value) with ascending tags. Readers skip tags they do not know.
const (
	tagEntries    = 1
	tagDeletes    = 2
	tagRawKeys    = 3
	tagRawValues  = 4
	tagFilterBits = 5

	tagPrefixLength = 6 // absent without prefixes in the filter
)

func appendProps(dst []byte, p *sstable.Props) []byte {
	for _, f := range []struct{ tag, value uint64 }{
		{tagEntries, p.Entries}, {tagDeletes, p.Deletes}, {tagRawKeys, p.RawKeys},
		{tagRawValues, p.RawValues}, {tagFilterBits, uint64(p.FilterBits)},
	} {
		dst = binary.AppendUvarint(dst, f.tag)
		dst = binary.AppendUvarint(dst, f.value)
	}
	if p.PrefixLength > 0 {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, tagPrefixLength),
			uint64(p.PrefixLength))
	}
	return dst
}

func parseProps(b []byte, p *sstable.Props) error {
	for last := uint64(0); len(b) > 0; {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag <= last {
			return base.Corruptf("table properties", "malformed tag")
		}
		value, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return base.Corruptf("table properties", "malformed value of tag %d", tag)
		}
		last, b = tag, b[n+m:]
		switch tag {
		case tagEntries:
			p.Entries = value
		case tagDeletes:
			p.Deletes = value
		case tagRawKeys:
			p.RawKeys = value
		case tagRawValues:
			p.RawValues = value
		case tagFilterBits:
			if value > filter.MaxBitsPerKey {
				return base.Corruptf("table properties", "%d filter bits per key", value)
			}
			p.FilterBits = int(value)
		case tagPrefixLength:
			if value > sstable.MaxPrefixLength {
				return base.Corruptf("table properties", "prefixes of %d bytes", value)
			}
			p.PrefixLength = int(value)
		}
	}
	return nil
}
