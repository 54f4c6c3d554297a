// Package block implements the blocks that tables are made of: where a block is in its
// file (Handle), its trailer (codec byte and checksum), LevelDB's row layout (RowBuilder,
// Measure), and View, the columns in memory into which every format is decoded.
//
// A View is read-only and safe for concurrent use; it does not own the memory
// it looks at. A Buffer, a RowBuilder and a Compressor belong to one goroutine
// at a time. The functions are safe for concurrent use.
package block

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
)

// TrailerLen is what follows each block in a file: codec byte, masked crc32c
// of contents and codec byte.
const TrailerLen = 5

// MaxHandleLen is the longest encoding of a Handle.
const MaxHandleLen = 2 * binary.MaxVarintLen64

// Handle says where a block lies in its file. Size does not count the trailer.
type Handle struct {
	Offset, Size uint64
}

// End is the file offset after the block's trailer.
func (h Handle) End() uint64 { return h.Offset + h.Size + TrailerLen }

// AppendHandle appends h as two varints.
func AppendHandle(dst []byte, h Handle) []byte {
	dst = binary.AppendUvarint(dst, h.Offset)
	return binary.AppendUvarint(dst, h.Size)
}

// DecodeHandle reads a handle off the front of b. n is 0 when b is malformed,
// not in its shortest form (a footer has no checksum: damage must not read as
// something valid), or the block would end past the largest file offset.
func DecodeHandle(b []byte) (h Handle, n int) {
	off, w := handlePart(b)
	if w == 0 {
		return Handle{}, 0
	}
	size, u := handlePart(b[w:])
	if u == 0 {
		return Handle{}, 0
	}
	return Handle{Offset: off, Size: size}, w + u
}

func handlePart(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n <= 0 || v >= 1<<62 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// codecBytes holds every codec byte, so that a checksum of one does not allocate.
var codecBytes = func() (b [256]byte) {
	for i := range b {
		b[i] = byte(i)
	}
	return b
}()

// Trailer returns the trailer of a block stored as p.
func Trailer(p []byte, c Codec) (t [TrailerLen]byte) {
	t[0] = byte(c)
	crc := base.CRCUpdate(base.CRC(p), codecBytes[int(c):int(c)+1])
	binary.LittleEndian.PutUint32(t[1:], base.MaskCRC(crc))
	return t
}

// Verify checks the trailer of b, a block as read from its file, and returns the
// stored contents and their codec.
func Verify(b []byte) (p []byte, c Codec, err error) {
	n := len(b) - TrailerLen
	if n < 0 {
		return nil, 0, base.Corruptf("table block", "shorter than its trailer")
	}
	want := base.UnmaskCRC(binary.LittleEndian.Uint32(b[n+1:]))
	if got := base.CRC(b[:n+1]); got != want {
		return nil, 0, base.Corruptf("table block", "checksum is %08x, contents have %08x", want,
			got)
	}
	return b[:n], Codec(b[n]), nil
}
