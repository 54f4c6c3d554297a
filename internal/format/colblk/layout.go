// Package colblk implements the data block of the native table format: sorted
// entries in columns, little-endian, that are searched where they lie. A Writer
// makes a block, a Block reads one; docs/format-block-native.md describes the bytes.
//
// A Block is read-only and safe for concurrent use; it does not own the memory that
// it looks at. A Writer belongs to one goroutine at a time.
package colblk

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
)

// A block is
//
//	header   fixedLen bytes
//	base     of the abbreviations, abbrevLen bytes
//	tails    two u32, if keys have tails: their length altogether, and their stride
//	prefix   what all keys begin with
//	columns  one after the other, in the order of the constants below
//	tails    of the keys, one after the other
//	values   packed one by one, or as one heap
//	padding  zeros, so that at least minRest bytes follow the columns
//
// Element i of a column of width w is the little-endian integer of w bytes at i*w.
// Every width may be 0; then all elements are 0 and take no space. An element is read
// by one load of 8 bytes, which may reach into what follows: hence the padding.
const (
	fixedLen = 31
	tailsHdr = 8 // bytes of the two fields for tails
	minRest  = 8
)

// Offsets of the header's fields.
const (
	hdrCount  = 0  // u32: entries
	hdrPrefix = 4  // u32: length of the prefix
	hdrWidths = 8  // u32: 4 bits for each column, from the low ones up
	hdrFlags  = 12 // u8: bits 0-3 abbrevLen, 4-5 the order, flagHeap, flagDistinct
	// u8: of the heap, or of all packed values; 0 if there is a column; flagTails
	hdrCodec       = 13
	hdrTrailerBase = 14 // u64: trailer of entry i without the two columns
	hdrValueStride = 22 // u32: mean length of a packed value, in 1/256
	hdrRawBase     = 26 // u32: see colRaw
	hdrSeqStep     = 30 // u8: from one sequence number to the next, besides colSeq
	hdrAbbrevBase  = 31
)

// Offsets of the fields for tails, after the abbreviations' base.
const (
	hdrTails      = 0 // u32: bytes of all tails
	hdrTailStride = 4 // u32: mean length of a tail, in 1/256
)

// The columns.
const (
	colAbbrev = iota // abbreviation less abbrevBase
	// length of the part of the key that the abbreviation stands for; width 0: all abbrevLen
	colLength
	colTail  // end of the tail, less its estimate; signed
	colSeq   // sequence number less that of trailerBase and less i steps
	colKind  // kind; width 0: that of trailerBase
	colCodec // codec of the value; width 0: that of the header
	// length of the value before it was packed, less rawBase; one that is no shorter packed is raw
	colRaw
	colValue // end of the value, less its estimate; signed
	numColumns
)

// maxWidths are the greatest widths of the columns, in their order from the low byte up.
const maxWidths = 0x05_04_01_01_07_05_01_08

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// widths are the widths of the columns: that of column i is byte i.
type widths uint64

// widthsOf takes widths of 4 bits apart.
func widthsOf(packed uint32) widths {
	x := uint64(packed)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	return widths((x | x<<4) & 0x0f0f0f0f0f0f0f0f)
}

// pack is the widths in 4 bits each.
func (w widths) pack() uint32 {
	x := uint64(w)
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16)
}

func (w widths) of(col int) uint8 { return uint8(w >> (8 * col)) }

func (w *widths) set(col int, width uint8) { *w |= widths(width) << (8 * col) }

// sums are what the columns take per entry up to and with column i: byte i. With widths of at
// most 15 no sum exceeds a byte.
func (w widths) sums() uint64 { return uint64(w) * lowBits }

// total is what all columns take per entry.
func (w widths) total() int { return int(w.sums() >> 56) }

// valid reports whether no width exceeds its greatest one: no byte of the difference
// borrows.
func (w widths) valid() bool { return (maxWidths|highBits-uint64(w))&highBits == highBits }

// order says how abbreviations come about.
type order uint8

const (
	plain   order = iota // by a comparer without abbreviations: all keys are tails
	forward              // bytewise
	reverse              // bytewise, descending: abbreviations are complements
)

func orderOf(c *base.Comparer) order {
	switch {
	case !c.HasAbbrev():
		return plain
	case c.Abbrev(nil, 0) == 0:
		return forward
	}
	return reverse
}

const (
	abbrevLenBits = 0x0f
	orderShift    = 4
	orderBits     = 3
	// flagHeap says that all values are one piece, packed as such: value ends are positions in it
	// before it was packed.
	flagHeap = 1 << 6
	// flagDistinct says that no user key occurs twice.
	flagDistinct = 1 << 7

	// flagTails, next to the codec, marks blocks with tails.
	flagTails = 1 << 7
)

// strideBits are the fraction's bits of a stride.
const strideBits = 8

// header is a block's header.
type header struct {
	count       int
	tailsLen    int
	widths      widths
	abbrevBase  uint64
	trailerBase uint64
	valueStride uint32
	tailStride  uint32
	rawBase     uint32
	seqStep     uint8
	prefixLen   int
	abbrevLen   uint8
	order       order
	flags       uint8
	codec       base.Codec
}

// put writes the header to the start of b, and returns its length.
func (h *header) put(b []byte) int {
	le := binary.LittleEndian
	le.PutUint32(b[hdrCount:], uint32(h.count))
	le.PutUint32(b[hdrPrefix:], uint32(h.prefixLen))
	le.PutUint32(b[hdrWidths:], h.widths.pack())
	b[hdrFlags] = h.flags | h.abbrevLen | byte(h.order)<<orderShift
	b[hdrCodec] = byte(h.codec)
	le.PutUint64(b[hdrTrailerBase:], h.trailerBase)
	le.PutUint32(b[hdrValueStride:], h.valueStride)
	le.PutUint32(b[hdrRawBase:], h.rawBase)
	b[hdrSeqStep] = h.seqStep
	le.PutUint64(b[hdrAbbrevBase:], h.abbrevBase)
	n := hdrAbbrevBase + int(h.abbrevLen)
	if h.tailsLen > 0 {
		b[hdrCodec] |= flagTails
		le.PutUint32(b[n+hdrTails:], uint32(h.tailsLen))
		le.PutUint32(b[n+hdrTailStride:], h.tailStride)
		n += tailsHdr
	}
	return n
}

// len is the length of the header.
func (h *header) len() uint64 {
	n := fixedLen + uint64(h.abbrevLen)
	if h.tailsLen > 0 {
		n += tailsHdr
	}
	return n
}

// columnsEnd is where the tails begin.
func (h *header) columnsEnd() uint64 {
	return h.len() + uint64(h.prefixLen) + uint64(h.count)*uint64(h.widths.total())
}

// load64 is the little-endian integer at p.
func load64(p unsafe.Pointer) uint64 { return binary.LittleEndian.Uint64((*[8]byte)(p)[:]) }

func load32(p unsafe.Pointer) uint32 { return binary.LittleEndian.Uint32((*[4]byte)(p)[:]) }

func storeBig64(p unsafe.Pointer, v uint64) { binary.BigEndian.PutUint64((*[8]byte)(p)[:], v) }

func store64(p unsafe.Pointer, v uint64) { binary.LittleEndian.PutUint64((*[8]byte)(p)[:], v) }

// masks are the bits of an element of each width.
var masks = [16]uint64{0, 1<<8 - 1, 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<40 - 1, 1<<48 - 1,
	1<<56 - 1, 1<<64 - 1}

// column is where a column lies and how wide it is.
type column struct {
	p     unsafe.Pointer
	width uintptr
	mask  uint64
}

// at is element i as an unsigned integer.
func (c column) at(i int) uint64 {
	return load64(unsafe.Add(c.p, uintptr(i)*c.width)) & c.mask
}

// signed is element i as a signed integer.
func (c column) signed(i int) int64 {
	sign := c.mask>>1 + 1 // in a column of width 0 this is 1, of no element
	return int64((c.at(i) ^ sign) - sign)
}

// end is element i of a column of ends: the estimate that the stride gives, corrected by
// the element.
func (c column) end(i int, stride uint32) uint64 {
	e := uint64(i+1) * uint64(stride) >> strideBits
	if c.width == 0 {
		return e
	}
	return e + uint64(c.signed(i))
}

// widthOf is the bytes that an unsigned integer takes.
func widthOf(v uint64) uint8 { return uint8((bits.Len64(v) + 7) / 8) }

// widthOfSigned is the bytes that the signed integers from lo <= 0 to hi >= 0 take.
func widthOfSigned(lo, hi int64) uint8 {
	m := uint64(hi) << 1
	if lo < 0 {
		m = max(m, uint64(^lo)<<1|1)
	}
	return widthOf(m)
}
