// Package native reads and writes tables of the native format. A table is
//
//	data blocks       sorted entries in columns (package colblk)
//	dictionary        which the values of some blocks are packed with
//	filter            of the whole table (package filter)
//	range tombstones  a block of their own
//	index             separator key -> handle of each data block
//	index of parts    only where the index, and with it the filter, is cut into parts
//	properties        what the table is and where its other parts lie
//	footer            48 bytes, at the end
//
// Nothing lies between the parts, and all of it is under a checksum. Every part stands in a
// frame: checksum, marker, length; see docs/format-table-native.md.
//
// A Reader is safe for concurrent use, up to Close. A source and a Writer belong to one
// goroutine at a time.
package native

import (
	"encoding/binary"
	"fmt"

	"github.com/loamdb/loam/internal/base"
)

// Magic ends every table.
const Magic = base.NativeTableMagic

// version is the version of the format that is written, and the greatest that is read.
const version = 1

const format = "native"

// FooterLen is the length of the footer.
const FooterLen = 48

// A frame begins with
//
//	checksum  u32: crc32c of marker, length and contents, begun with seed
//	marker    "Lom" and what the contents are
//	length    u32: of the contents
//
// The checksum begins with a seed made of the file's number and the frame's offset: a
// frame of another table, or of another place, does not have the right one, and
// neither does a value that holds a frame.
const (
	headerLen = 12
	marker    = "Lom"

	frameChecksum = 0
	frameMarker   = 4
	frameKind     = 7
	frameLength   = 8
)

// What the contents of a frame are.
const (
	kindData      = 'd'
	kindDict      = 'z'
	kindFilter    = 'f'
	kindRangeDels = 'r'
	kindIndex     = 'i'
	kindParts     = 't'
	kindProps     = 'p'
)

// maxFrame is the longest frame.
const maxFrame = 1<<32 - 1

// maxPadding bounds the zeros behind the contents of a data block.
const maxPadding = pageLen - 1

// pageLen is the unit that the file is cached in by the operating system.
const pageLen = 4096

// seed is what the checksum of the frame at off begins with.
func seed(fileNum, off uint64) uint32 {
	x := (fileNum ^ off*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return uint32(x >> 32)
}

// sealFrame fills in the header of the frame b, which lies at off.
func sealFrame(b []byte, kind byte, fileNum, off uint64) {
	copy(b[frameMarker:], marker)
	b[frameKind] = kind
	binary.LittleEndian.PutUint32(b[frameLength:], uint32(len(b)-headerLen))
	binary.LittleEndian.PutUint32(b, base.CRCUpdate(seed(fileNum, off), b[frameMarker:]))
}

// frameContents returns what the frame at the beginning of b, which may have padding, says that
// its contents are.
func frameContents(b []byte) ([]byte, error) {
	if len(b) < headerLen {
		return nil, base.Corruptf("table block", "%d bytes are too few", len(b))
	}
	n, room := uint64(binary.LittleEndian.Uint32(b[frameLength:])), uint64(len(b)-headerLen)
	if n > room || room-n > maxPadding {
		return nil, base.Corruptf("table block", "says that it has %d bytes, the index says %d", n,
			room)
	}
	end := headerLen + int(n)
	return b[headerLen:end:end], nil
}

// openFrame checks the frame in b, which lies at off and has padding up to the end of b,
// and returns its contents.
func openFrame(b []byte, kind byte, fileNum, off uint64) ([]byte, error) {
	contents, err := frameContents(b)
	if err != nil {
		return nil, err
	}
	if string(b[frameMarker:frameKind]) != marker || b[frameKind] != kind {
		return nil, base.Corruptf("table block", "begins with %q, not with %q",
			b[frameMarker:frameLength], marker+string(rune(kind)))
	}
	end := headerLen + len(contents)
	want := binary.LittleEndian.Uint32(b)
	if got := base.CRCUpdate(seed(fileNum, off), b[frameMarker:end]); got != want {
		return nil, base.Corruptf("table block", "checksum is %08x, contents have %08x", want, got)
	}
	for _, c := range b[end:] {
		if c != 0 {
			return nil, base.Corruptf("table block", "padding is not zero")
		}
	}
	return contents, nil
}

// openWhole is openFrame without padding.
func openWhole(b []byte, kind byte, fileNum, off uint64) ([]byte, error) {
	contents, err := openFrame(b, kind, fileNum, off)
	if err == nil && len(contents) != len(b)-headerLen {
		err = base.Corruptf("table block", "padding where there is none")
	}
	return contents, err
}

// footer is the end of a table:
//
//	u64  offset of the properties' frame, which ends where the footer begins
//	u64  number of the file, 0 when the writer did not know it
//	u64  size of the file
//	u64  0
//	u32  crc32c of the 32 bytes before and the version
//	u16  version of the format
//	u16  complement of the version, so that damage is not taken for a newer version
//	u64  magic
type footer struct {
	props, fileNum, size uint64
}

const (
	footChecksum = 32
	footVersion  = 36
	footMagic    = 40
)

func (f *footer) append(dst []byte) []byte {
	n := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, f.props)
	dst = binary.LittleEndian.AppendUint64(dst, f.fileNum)
	dst = binary.LittleEndian.AppendUint64(dst, f.size)
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint16(dst, version)
	dst = binary.LittleEndian.AppendUint16(dst, ^uint16(version))
	binary.LittleEndian.PutUint32(dst[n+footChecksum:], footerChecksum(dst[n:]))
	return binary.LittleEndian.AppendUint64(dst, Magic)
}

func footerChecksum(b []byte) uint32 { return base.CRC(b[:footChecksum], b[footVersion:footMagic]) }

// parseFooter reads the footer of a file of size bytes.
func parseFooter(b []byte, size uint64) (f footer, err error) {
	if m := binary.LittleEndian.Uint64(b[footMagic:]); m != Magic {
		return f, base.Corruptf("table footer", "magic is %#x", m)
	}
	v, complement := binary.LittleEndian.Uint16(b[footVersion:]), binary.LittleEndian.Uint16(
		b[footVersion+2:])
	if v > version && complement == ^v {
		return f,
			fmt.Errorf("%w: a table has version %d of the native format, this Loam reads up to %d",
				base.ErrNewerFormat, v, version)
	}
	if got, want := footerChecksum(b), binary.LittleEndian.Uint32(b[footChecksum:]); got != want {
		return f, base.Corruptf("table footer", "checksum is %08x, contents have %08x", want, got)
	}
	if v != version || complement != ^v {
		return f, base.Corruptf("table footer", "version %d with %#x for a complement", v,
			complement)
	}
	f.props = binary.LittleEndian.Uint64(b)
	f.fileNum = binary.LittleEndian.Uint64(b[8:])
	f.size = binary.LittleEndian.Uint64(b[16:])
	switch {
	case f.size != size:
		return f, base.Corruptf("table footer", "the table has %d bytes, its file has %d", f.size,
			size)
	case binary.LittleEndian.Uint64(b[24:]) != 0:
		return f, base.Corruptf("table footer", "reserved bytes are not zero")
	case size < FooterLen+headerLen || f.props > size-FooterLen-headerLen:
		return f, base.Corruptf("table footer", "the properties at %d lie outside of the file",
			f.props)
	}
	return f, nil
}
