// Package record writes and reads records in LevelDB's log format, which the write-ahead
// log and the MANIFEST share. Reading distinguishes a log that ends, one that was torn by
// a crash, and one that is damaged.
//
// A file is a sequence of 32 KiB blocks. A block holds chunks: masked crc32c
// of type and data (u32), length of the data (u16), type, data. A record is
// one full chunk, or a first, any number of middle and a last one. A block's
// end that has no room for a chunk header is zero.
//
// A Writer is used by one goroutine at a time, except that Sync may run beside
// Append. A Reader is used by one goroutine at a time.
package record

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
)

const (
	blockSize = 32 << 10
	headerLen = 7
)

// DO NOT CHANGE THESE VALUES: they are LevelDB's chunk types.
const (
	chunkZero   = 0 // allocated ahead and never written
	chunkFull   = 1
	chunkFirst  = 2
	chunkMiddle = 3
	chunkLast   = 4
)

// typeCRC is the crc32c of each type byte, with which a chunk's crc begins.
var typeCRC = func() (t [256]uint32) {
	for i := range t {
		t[i] = base.CRC([]byte{byte(i)})
	}
	return t
}()

// putHeader writes the header of a chunk with the given data into h.
func putHeader(h []byte, typ byte, crc uint32, n int) {
	binary.LittleEndian.PutUint32(h, base.MaskCRC(crc))
	h[4], h[5], h[6] = byte(n), byte(n>>8), typ
}

// chunkLen is the data length that a header declares.
func chunkLen(h []byte) int { return int(h[4]) | int(h[5])<<8 }

// checksumOK verifies the chunk of n data bytes that begins at b.
func checksumOK(b []byte, n int) bool {
	want := base.UnmaskCRC(binary.LittleEndian.Uint32(b))
	return base.CRCUpdate(typeCRC[b[6]], b[headerLen:headerLen+n]) == want
}
