package record

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"

	"github.com/loamdb/loam/internal/base"
)

// Chained framing is that of the logs of the native format. Blocks and records are
// those of LevelDB's framing; a chunk's header is longer:
//
//	masked crc32c u32 | length of the data u16 | type u8 | life u32 | unsynced u32 | previous u32
//
// Life is a random number that all chunks share that were written since the file became
// this log: a file may have been another log before. Unsynced is how many bytes before
// this chunk were not known to be durable when it was written, math.MaxUint32 for all.
// Previous is the checksum of the chunk before. The checksum covers the log's number and
// the chunk's place in the file, which are not stored, the rest of the header, and the
// data.
//
// So a chunk can be verified by itself, wherever reading stopped before it, and the chunks after a
// break show whether the bytes at the break had been synced.
const (
	chainHeaderLen = 19
	chunkBegin     = 5 // the first chunk of a log
	noneDurable    = math.MaxUint32

	// Offsets within the header.
	atType, atLife, atUnsynced, atPrevious = 6, 7, 11, 15
)

const (
	beginVersion       = 1
	beginSealedVersion = 2 // a header of the encryption and a tag follow
	beginLen           = 1 + 5*8
)

// Begin is what the first chunk of a chained log says.
type Begin struct {
	Num    uint64      // the log's number
	Before Predecessor // the log that was written until this one began; zero: none
	// Former is the size of the file when it became this log: chunks of its former
	// life may follow the end of the log up to there. 0: the file was new.
	Former int64
	Life   uint32 // see above; 0: Writer.Begin draws one
}

// LogEnd is an offset in a log.
type LogEnd struct {
	Num uint64 // 0: none
	End int64
}

// Predecessor is a log's record of the previous one.
type Predecessor struct {
	Num     uint64
	End     int64 // where its last record ended
	Durable int64 // up to where it was known to be durable
}

func (b Begin) encode(version byte) []byte {
	p := make([]byte, 1, beginLen)
	p[0] = version
	for _, v := range []uint64{b.Num, b.Before.Num, uint64(b.Before.End), uint64(b.Before.Durable),
		uint64(b.Former)} {
		p = binary.LittleEndian.AppendUint64(p, v)
	}
	return p
}

// decodeBegin reads the data of a begin chunk. ok is false when a field is out of range.
func decodeBegin(p []byte) (b Begin, ok bool) {
	clear := len(p) == beginLen && p[0] == beginVersion
	if !clear && (len(p) <= beginLen || p[0] != beginSealedVersion) {
		return Begin{}, false
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(p[1+8*i:]) }
	b = Begin{Num: field(0), Before: Predecessor{Num: field(1), End: int64(field(2)),
		Durable: int64(field(3))}, Former: int64(field(4))}
	return b, b.Before.End >= 0 && b.Before.Durable >= 0 && b.Former >= 0
}

// ReadBegin returns what the first chunk of a file says, whichever log the file is. ok is false if
// the file does not begin with an intact one.
func ReadBegin(r io.ReaderAt) (b Begin, ok bool, err error) {
	head, err := readHead(r)
	b, ok = beginOf(head)
	return b, ok, err
}

// readHead reads as much of the beginning of a file as a first chunk may have.
func readHead(r io.ReaderAt) ([]byte, error) {
	var head [chainHeaderLen + maxBegin]byte
	n, err := r.ReadAt(head[:chainHeaderLen+beginLen], 0)
	if err == nil && chunkLen(head[:]) > beginLen {
		var more int
		more, err = r.ReadAt(head[n:], int64(n))
		n += more
	}
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}

// beginOf is ReadBegin of the first bytes of a file.
func beginOf(h chained) (b Begin, ok bool) {
	if len(h) < chainHeaderLen+beginLen || h.typ() != chunkBegin || chunkLen(h) > maxBegin ||
		len(h) < chainHeaderLen+chunkLen(h) {
		return Begin{}, false
	}
	b, ok = decodeBegin(h[chainHeaderLen : chainHeaderLen+chunkLen(h)])
	b.Life = h.life()
	return b, ok && h.intact(numCRC(b.Num), 0)
}

// chain is what a chained chunk is made from beside its data.
type chain struct {
	seed     uint32 // crc of the log's number
	life     uint32
	previous uint32 // checksum of the last chunk
}

func newChain(b Begin) chain {
	c := chain{seed: numCRC(b.Num), life: b.Life}
	if c.life == 0 {
		c.life = max(rand.Uint32(), 1)
	}
	return c
}

func numCRC(num uint64) uint32 {
	return base.CRC(binary.LittleEndian.AppendUint64(nil, num))
}

// crcAt is the crc of a header, without its first field, at pos in the file. No two
// places of a file have the same.
func crcAt(seed uint32, pos int64, header []byte) uint32 {
	return base.CRCUpdate(seed^uint32(pos)^uint32(pos>>32)*0x9e3779b1, header[4:chainHeaderLen])
}

// header writes all of a header but its checksum, and returns the crc that the data
// continues. durable is below pos, or is taken for it.
func (c *chain) header(h []byte, typ byte, n int, pos, durable int64) uint32 {
	h[4], h[5], h[atType] = byte(n), byte(n>>8), typ
	binary.LittleEndian.PutUint32(h[atLife:], c.life)
	unsynced := uint32(noneDurable)
	if d := pos - durable; durable > 0 && d < noneDurable {
		unsynced = uint32(max(d, 0))
	}
	binary.LittleEndian.PutUint32(h[atUnsynced:], unsynced)
	binary.LittleEndian.PutUint32(h[atPrevious:], c.previous)
	return crcAt(c.seed, pos, h)
}

// finish writes the checksum.
func (c *chain) finish(h []byte, crc uint32) {
	c.previous = base.MaskCRC(crc)
	binary.LittleEndian.PutUint32(h, c.previous)
}

// chained reads a chunk header at the beginning of h, which has chainHeaderLen bytes.
type chained []byte

func (h chained) sum() uint32      { return binary.LittleEndian.Uint32(h) }
func (h chained) typ() byte        { return h[atType] }
func (h chained) life() uint32     { return binary.LittleEndian.Uint32(h[atLife:]) }
func (h chained) previous() uint32 { return binary.LittleEndian.Uint32(h[atPrevious:]) }

// durable is up to where the log was durable when a chunk at pos was written.
func (h chained) durable(pos int64) int64 {
	d := binary.LittleEndian.Uint32(h[atUnsynced:])
	if d == noneDurable {
		return 0
	}
	return max(pos-int64(d), 0)
}

// intact verifies the chunk at pos, of the log with this seed. h may be longer than it.
func (h chained) intact(seed uint32, pos int64) bool {
	if len(h) < chainHeaderLen {
		return false
	}
	n := chunkLen(h)
	return h[atType] != chunkZero && h[atType] <= chunkBegin && n <= len(h)-chainHeaderLen &&
		base.MaskCRC(base.CRCUpdate(crcAt(seed, pos, h), h[chainHeaderLen:chainHeaderLen+n])) ==
			h.sum()
}
