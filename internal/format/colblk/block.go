package colblk

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
)

// MaxSize is the longest block that there is, and the longest heap of values.
const MaxSize = min(1<<32-1, math.MaxInt)

// Block is a native data block.
type Block struct {
	p      unsafe.Pointer // the header
	size   uintptr
	n      int
	widths widths
	sums   uint64         // of widths
	prefix unsafe.Pointer // the prefix
	cols   unsafe.Pointer // the columns, behind the prefix
	tails  int            // length of all tails
	flags  uint8          // as in the header
	// trailer is that of entry i without the two columns
	trailer uint64
}

func corrupt(format string, args ...any) error {
	return base.Corruptf("native block", format, args...)
}

// Open reads a block after it checked all that reading in its bounds depends on:
// whatever b holds, no method of the Block reads outside of it. cmp has the name of the comparer
// that the block was written with. CheckOrder is another matter.
func Open(b []byte, cmp *base.Comparer) (Block, error) {
	if err := checkLen(b); err != nil {
		return Block{}, err
	}
	v := Reopen(b)
	if err := v.checkHeader(cmp); err != nil {
		return Block{}, err
	}
	if err := v.checkColumns(); err != nil {
		return Block{}, err
	}
	return v, nil
}

// checkLen checks that a header lies in b.
func checkLen(b []byte) error {
	if uint64(len(b)) > MaxSize || len(b) < fixedLen+minRest ||
		len(b) < headerLen(b[hdrFlags], b[hdrCodec])+minRest {
		return corrupt("no block has %d bytes", len(b))
	}
	return nil
}

// headerLen is the length of a header with these flags.
func headerLen(flags, codec uint8) int {
	return fixedLen + int(flags&abbrevLenBits) + int(codec&flagTails)/flagTails*tailsHdr
}

// Reopen reads bytes that Open found valid.
func Reopen(b []byte) Block {
	p := unsafe.Pointer(unsafe.SliceData(b))
	v := Block{
		p:       p,
		size:    uintptr(len(b)),
		n:       int(load32(p)),
		widths:  widthsOf(load32(unsafe.Add(p, hdrWidths))),
		flags:   *(*byte)(unsafe.Add(p, hdrFlags)),
		trailer: load64(unsafe.Add(p, hdrTrailerBase)),
	}
	v.sums = v.widths.sums()
	codec := *(*byte)(unsafe.Add(p, hdrCodec))
	v.prefix = unsafe.Add(p, headerLen(v.flags, codec))
	if codec&flagTails != 0 {
		v.tails = int(load32(unsafe.Add(v.prefix, hdrTails-tailsHdr)))
	}
	v.cols = unsafe.Add(v.prefix, uintptr(load32(unsafe.Add(p, hdrPrefix))))
	return v
}

func (v *Block) abbrevLen() int { return int(v.flags & abbrevLenBits) }

func (v *Block) order() order { return order(v.flags >> orderShift & orderBits) }

func (v *Block) field32(off uintptr) uint32 { return load32(unsafe.Add(v.p, off)) }

func (v *Block) field64(off uintptr) uint64 { return load64(unsafe.Add(v.p, off)) }

func (v *Block) prefixLen() int { return int(v.field32(hdrPrefix)) }

// abbrevBase is the first abbreviation.
func (v *Block) abbrevBase() uint64 {
	return v.field64(hdrAbbrevBase) & masks[v.flags&abbrevLenBits]
}

// tailStride is 0 without tails.
func (v *Block) tailStride() uint32 {
	if v.tails == 0 {
		return 0
	}
	return load32(unsafe.Add(v.prefix, hdrTailStride-tailsHdr))
}

// codec is the codec of the heap or of the packed values.
func (v *Block) codec() base.Codec {
	return base.Codec(*(*byte)(unsafe.Add(v.p, hdrCodec)) &^ flagTails)
}

// tailsOff is the offset of the tails.
func (v *Block) tailsOff() uintptr {
	return uintptr(v.cols) - uintptr(v.p) + uintptr(v.n)*uintptr(v.sums>>56)
}

// valuesOff is the offset of the values.
func (v *Block) valuesOff() uintptr { return v.tailsOff() + uintptr(v.tails) }

// col is column i.
func (v *Block) col(i int) column {
	before := uintptr(v.sums << 8 >> (8 * i) & 0xff)
	width := v.widths.of(i)
	return column{unsafe.Add(v.cols, uintptr(v.n)*before), uintptr(width), masks[width&15]}
}

// ofNamesake reports whether a comparer of the same name as cmp wrote the block, which orders as
// cmp does: a built-in one, or one of the program's under the built-in's name, whose blocks are
// plain.
func (v *Block) ofNamesake(cmp *base.Comparer) bool {
	builtIn, _ := base.ComparerNamed(cmp.Name)
	return builtIn != nil && (v.order() == plain || v.order() == orderOf(builtIn))
}

// checkHeader checks that the columns and tails lie in the block.
func (v *Block) checkHeader(cmp *base.Comparer) error {
	if want := orderOf(cmp); v.order() != want && !v.ofNamesake(cmp) {
		return corrupt("order %d, the comparer has %d", v.order(), want)
	}
	k := v.abbrevLen()
	prefixLen := v.field32(hdrPrefix)
	if k > 8 || v.order() == plain && (k > 0 || prefixLen > 0) {
		return corrupt("abbreviations of %d bytes after a prefix of %d, order %d", k, prefixLen,
			v.order())
	}
	if !v.widths.valid() || int(v.widths.of(colAbbrev)) > k {
		return corrupt("columns are %x bytes wide, abbreviations stand for %d", uint64(v.widths), k)
	}
	// Without abbreviations and tails all keys are the same, and differ in their trailers.
	count, perEntry, tails := uint64(v.field32(hdrCount)), uint64(v.widths.total()), uint64(
		uint32(v.tails))
	if count > uint64(v.size) || count == 0 && prefixLen > 0 {
		return corrupt("%d entries in %d bytes", count, v.size)
	}
	codec := *(*byte)(unsafe.Add(v.p, hdrCodec))
	if codec&flagTails != 0 && tails == 0 {
		return corrupt("tails of no byte")
	}
	if end := uint64(headerLen(v.flags, codec)) + uint64(prefixLen) +
		count*perEntry; end+max(tails, minRest) > uint64(v.size) {
		return corrupt("%d entries of %d bytes after a prefix of %d, and tails of %d, in %d bytes",
			count, perEntry, prefixLen, tails, v.size)
	}
	if v.heap() {
		if v.widths.of(colCodec)|v.widths.of(colRaw) != 0 || v.field32(hdrRawBase) != 0 {
			return corrupt("values in a heap have codecs or lengths of their own")
		}
	}
	return nil
}

// checkColumns checks what the columns hold.
func (v *Block) checkColumns() error {
	tails := uint64(v.tails)
	end, err := v.checkEnds(colTail, v.tailStride(), tails)
	if err != nil {
		return err
	}
	if end != tails {
		return corrupt("tails end at %d of %d", end, tails)
	}
	room := uint64(v.size - v.valuesOff())
	if v.packedHeap() {
		room = MaxSize
	}
	if end, err = v.checkEnds(colValue, v.field32(hdrValueStride), room); err != nil {
		return err
	}
	if size := max(uint64(v.valuesOff())+end, uint64(v.tailsOff())+minRest); !v.packedHeap() &&
		size != uint64(v.size) {
		return corrupt("%d bytes, its values end at %d", v.size, size)
	}
	if v.widths.of(colLength) != 0 {
		k := v.abbrevLen()
		lengths := v.col(colLength)
		for i := range v.n {
			if l := int(lengths.at(i)); l > k || l < k && v.tailLen(i) > 0 {
				return corrupt("entry %d: %d bytes of %d and a tail of %d", i, l, k, v.tailLen(i))
			}
		}
	}
	return nil
}

// checkEnds checks that a column of ends ascends and does not exceed room, and returns
// the last one.
func (v *Block) checkEnds(col int, stride uint32, room uint64) (uint64, error) {
	c := v.col(col)
	if c.width == 0 { // they ascend
		if end := uint64(v.n) * uint64(stride) >> strideBits; end <= room {
			return end, nil
		}
		return 0, corrupt("%d strides of %d/256 in %d bytes", v.n, stride, room)
	}
	last, sum := uint64(0), uint64(0)
	for i := range v.n {
		sum += uint64(stride)
		end := sum>>strideBits + uint64(c.signed(i))
		if end-last > room-last {
			return 0, corrupt("column %d: end %d of entry %d after %d, in %d bytes", col, end, i,
				last, room)
		}
		last = end
	}
	return last, nil
}

// Len is the number of entries.
func (v *Block) Len() int { return v.n }

// SetSeq makes seq the sequence number of all entries. REQUIRES: they have the same one.
func (v *Block) SetSeq(seq base.SeqNum) {
	v.trailer = uint64(base.MakeTrailer(seq, base.Trailer(v.trailer).Kind()))
}

func (v *Block) seqStep() uint64 { return uint64(*(*byte)(unsafe.Add(v.p, hdrSeqStep))) }

// Trailer returns trailer i.
func (v *Block) Trailer(i int) base.Trailer {
	return base.Trailer(v.trailer + (uint64(i)*v.seqStep()+v.col(colSeq).at(i))<<8 +
		v.col(colKind).at(i))
}

// heap reports whether values are packed as one heap.
func (v *Block) heap() bool { return v.flags&flagHeap != 0 }

// packedHeap reports whether value ends are positions in what must be unpacked first.
func (v *Block) packedHeap() bool { return v.heap() && v.codec() != base.CodecRaw }

func (v *Block) bytes(off, end uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(v.p, off)), end-off)
}

func (v *Block) prefixBytes() []byte { return unsafe.Slice((*byte)(v.prefix), v.prefixLen()) }

// tailRange is where tail i lies among the tails.
func (v *Block) tailRange(i int) (from, to uint64) {
	return v.col(colTail).part(i, v.tailStride())
}

// part is from where to where part i goes.
func (c column) part(i int, stride uint32) (from, to uint64) {
	if i > 0 {
		from = c.end(i-1, stride)
	}
	return from, c.end(i, stride)
}

func (v *Block) tailLen(i int) int {
	from, to := v.tailRange(i)
	return int(to - from)
}

func (v *Block) tail(i int) []byte {
	from, to := v.tailRange(i)
	off := v.tailsOff()
	return v.bytes(off+uintptr(from), off+uintptr(to))
}

// abbrevKeyLen is how many bytes of key i its abbreviation stands for.
func (v *Block) abbrevKeyLen(i int) int {
	if v.widths.of(colLength) == 0 {
		return v.abbrevLen()
	}
	return int(v.col(colLength).at(i))
}

// KeyLen is the length of user key i.
func (v *Block) KeyLen(i int) int { return v.prefixLen() + v.abbrevKeyLen(i) + v.tailLen(i) }

// AppendKey appends user key i.
func (v *Block) AppendKey(dst []byte, i int) []byte {
	dst = append(dst, v.prefixBytes()...)
	k := v.abbrevLen()
	x := (v.abbrevBase() + v.col(colAbbrev).at(i)) << (64 - 8*k)
	if v.order() == reverse {
		x = ^x
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], x)
	dst = append(dst, b[:v.abbrevKeyLen(i)&15]...)
	if v.tails == 0 {
		return dst
	}
	return append(dst, v.tail(i)...)
}
