package colblk

import (
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zstd"
)

// A dictionary is bytes that stand in front of every value, or heap, that is packed with
// it: matches may lie in it. The Writer makes one of a table's first values where that
// saves enough, see trainer. It is stored once in the table.
const (
	// MaxDict is the longest dictionary: two bytes reach over a short value and all of
	// it.
	MaxDict = 1<<16 - 1 - maxShort
	// dictID is what zstd's frames name the dictionary by.
	dictID = 1
)

// Dict is the dictionary of a table. It is safe for concurrent use. A nil one is that of a
// table without.
type Dict struct {
	content []byte // wideCopy bytes behind it are readable

	once sync.Once // of the rest
	dec  *zstd.Decoder
	err  error
}

// NewDict returns the dictionary that a table stores as b.
func NewDict(b []byte) (*Dict, error) {
	if len(b) == 0 || len(b) > MaxDict {
		return nil, corrupt("a dictionary of %d bytes", len(b))
	}
	d := &Dict{content: make([]byte, len(b), len(b)+wideCopy)}
	copy(d.content, b)
	return d, nil
}

// Cap is the memory held, without zstd's.
func (d *Dict) Cap() int { return cap(d.shortContent()) }

// zstd returns the decoder of zstd's frames.
func (d *Dict) zstd() (*zstd.Decoder, error) {
	if d == nil {
		return nil, errNoDict
	}
	d.once.Do(func() {
		d.dec, d.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2),
			zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(1<<32), zstd.WithDecoderDictRaw(dictID, d.content))
	})
	return d.dec, d.err
}

// shortContent is what CodecShortDict unpacks with.
func (d *Dict) shortContent() []byte {
	if d == nil {
		return nil
	}
	return d.content
}

const dictTableBits = 12

// dictPacker packs with a dictionary.
type dictPacker struct {
	dict   *Dict
	work   []byte // the dictionary, then the value being packed, then wideCopy bytes
	places [1 << dictTableBits]uint16
	own    shortTable // of the value

	enc *zstd.Encoder // nil: values do not get CodecZstdDict
}

// newDictPacker makes a packer. With zstd, heaps are packed by zstd at level.
func newDictPacker(content []byte, withZstd bool, level zstd.EncoderLevel) (*dictPacker, error) {
	dict, err := NewDict(content)
	if err != nil {
		return nil, err
	}
	d := &dictPacker{dict: dict, work: make([]byte, len(content)+maxShort+wideCopy)}
	copy(d.work, content)
	p := unsafe.Pointer(unsafe.SliceData(d.work))
	for i := 0; i+minMatch <= len(content); i++ {
		d.places[load32(unsafe.Add(p, i))*2654435761>>(32-dictTableBits)] = uint16(i)
	}
	if withZstd {
		d.enc, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(level),
			zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithWindowSize(1<<17),
			zstd.WithEncoderDictRaw(dictID, dict.content))
	}
	return d, err
}

// packShort is shortTable.packShort with the dictionary. A match lies in the dictionary or
// in the value, not in both.
func (d *dictPacker) packShort(dst, src []byte) int {
	limit := len(src) - len(src)/8 - 1
	if len(src) < minPacked || len(dst) < len(src) {
		return 0
	}
	first := len(d.dict.content) // of the value
	all := d.work[:first+len(src)]
	copy(all[first:], src)
	clear(d.own[:])
	p := unsafe.Pointer(unsafe.SliceData(all))
	out, from, last := 0, first, len(all)-minMatch
	for s := first; s <= last; {
		x := load32(unsafe.Add(p, s))
		h := x * 2654435761
		at, lowest, n := int(d.places[h>>(32-dictTableBits)]), 0, 0
		if at+minMatch <= first && load32(unsafe.Add(p, at)) == x {
			n = min(minMatch+matchLen(all, at+minMatch, s+minMatch), first-at)
		}
		own := &d.own[h>>(32-9)]
		if o := first + int(*own); o < s && load32(unsafe.Add(p, o)) == x {
			if m := minMatch + matchLen(all, o+minMatch, s+minMatch); m >= n {
				at, lowest, n = o, first, m
			}
		}
		*own = uint16(s - first)
		if n == 0 {
			s += 1 + (s-from)>>5
			continue
		}
		for s > from && at > lowest && all[s-1] == all[at-1] {
			s, at, n = s-1, at-1, n+1
		}
		if out = appendShort(dst, out, limit, all[from:s], s, s-at, n, s+n == len(all)); out < 0 {
			return 0
		}
		s += n
		from = s
	}
	if from < len(all) {
		if out = appendLiteral(dst, out, limit, all[from:], 0); out < 0 {
			return 0
		}
	}
	return out
}
