package colblk

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// base.CodecShort packs values of some hundred bytes, where the tags and the length of
// snappy are a good part of the whole. It knows the unpacked length from elsewhere. A packed
// value is a sequence of
//
//	token     u8: length of the literal in the upper half, of the match in the lower one
//	...       more of the literal's length if its half is 15
//	literal
//	offset    of the match, back from where it goes: u8, u16 if 256 bytes or more precede it
//	...       more of the match's length if its half is 15
//
// until the unpacked length is reached, which may be after a literal. "More" is bytes to
// add, the last one below 255. A half of 0 is a match that goes to the end of the value,
// 1 to 15 are matches of 4 to 18 bytes. In base.CodecShortDict the dictionary precedes the
// value; a match in it ends in it.
const (
	// maxShort is the longest value that is packed in this way. Of longer ones snappy
	// takes a byte or two more and less time.
	maxShort = 512
	// wideCopy is how many bytes the copies of the decoder write at once, so how many bytes behind
	// its destination must be writable.
	wideCopy = 16

	minMatch = 4
)

// shortTable finds earlier occurrences of four bytes. It is kept from value to value because it
// would be cleared twice otherwise.
type shortTable [1 << 9]uint16

// packShort packs src into dst, which has as many bytes, and returns how many it took; 0 if
// that would not save an eighth. REQUIRES: len(src) <= maxShort.
func (t *shortTable) packShort(dst, src []byte) int {
	limit := len(src) - len(src)/8 - 1
	if len(src) < minPacked || len(dst) < len(src) {
		return 0
	}
	shift := uint(32 - 9)
	if len(src) <= 256 {
		shift = 32 - 8
	}
	clear(t[:1<<(32-shift)])
	p := unsafe.Pointer(unsafe.SliceData(src))
	d, from := 0, 0 // literals begin at from
	last := len(src) - minMatch
	for s := 1; s <= last; {
		x := load32(unsafe.Add(p, s))
		slot := &t[x*2654435761>>shift&(1<<9-1)]
		cand := int(*slot)
		*slot = uint16(s)
		if load32(unsafe.Add(p, cand)) != x {
			s += 1 + (s-from)>>4
			continue
		}
		n := matchLen(src, cand+minMatch, s+minMatch) + minMatch
		for s > from && cand > 0 && src[s-1] == src[cand-1] {
			s, cand, n = s-1, cand-1, n+1
		}
		if d = appendShort(dst, d, limit, src[from:s], s, s-cand, n, s+n == len(src)); d < 0 {
			return 0
		}
		s += n
		if from = s; s-2 <= last {
			t[load32(unsafe.Add(p, s-2))*2654435761>>shift&(1<<9-1)] = uint16(s - 2)
		}
	}
	if from < len(src) {
		if d = appendLiteral(dst, d, limit, src[from:], 0); d < 0 {
			return 0
		}
	}
	return d
}

// matchLen is how many bytes from a on and from b > a on are the same.
func matchLen(src []byte, a, b int) int {
	n := 0
	for b+n+8 <= len(src) {
		if x := binary.LittleEndian.Uint64(src[a+n:]) ^ binary.LittleEndian.Uint64(
			src[b+n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for b+n < len(src) && src[a+n] == src[b+n] {
		n++
	}
	return n
}

// appendLiteral writes the token, with this half for the match, and the literal to dst[d:].
// It returns -1 when dst would have more than limit bytes.
func appendLiteral(dst []byte, d, limit int, literal []byte, half byte) int {
	if d+1+len(literal)/255+1+len(literal) > limit {
		return -1
	}
	n := len(literal)
	dst[d] = byte(min(n, 15))<<4 | half
	d++
	if n >= 15 {
		d = appendMore(dst, d, n-15)
	}
	return d + copy(dst[d:], literal)
}

func appendMore(dst []byte, d, n int) int {
	for ; n >= 255; n -= 255 {
		dst[d] = 255
		d++
	}
	dst[d] = byte(n)
	return d + 1
}

// appendShort writes a literal and a match of n bytes at position at.
func appendShort(dst []byte, d, limit int, literal []byte, at, offset, n int, toEnd bool) int {
	half := byte(0)
	if !toEnd {
		half = byte(min(n-minMatch+1, 15))
	}
	if d = appendLiteral(dst, d, limit, literal, half); d < 0 || d+2+n/255+1 > limit {
		return -1
	}
	dst[d] = byte(offset)
	d++
	if at >= 256 {
		dst[d] = byte(offset >> 8)
		d++
	}
	if half == 15 {
		d = appendMore(dst, d, n-minMatch-14)
	}
	return d
}

// unpackShort unpacks src, packed with dict, to dst. readable is how many bytes from the start of
// src may be read, as may be wideCopy bytes behind dict; wideCopy bytes behind dst are overwritten.
// It reports whether src is well-formed and stands for just as many bytes as dst has.
func unpackShort(dst, src, dict []byte, readable int) bool {
	dp, sp := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	d, s := 0, 0
	for d < len(dst) {
		if s >= len(src) {
			return false
		}
		token := *(*byte)(unsafe.Add(sp, s))
		s++
		n := int(token >> 4)
		if n == 15 {
			more, w := readMore(src[s:])
			if w == 0 {
				return false
			}
			n, s = n+more, s+w
		}
		if n > len(dst)-d || n > len(src)-s {
			return false
		}
		if s+n+wideCopy <= readable {
			copyWide(unsafe.Add(dp, d), unsafe.Add(sp, s), n)
		} else {
			copy(dst[d:d+n], src[s:])
		}
		d, s = d+n, s+n
		if d == len(dst) {
			break
		}
		offset := 0
		switch {
		case d+len(dict) < 256:
			if s >= len(src) {
				return false
			}
			offset = int(*(*byte)(unsafe.Add(sp, s)))
			s++
		case s+2 > len(src):
			return false
		default:
			offset = int(src[s]) | int(src[s+1])<<8
			s += 2
		}
		n = int(token&15) - 1 + minMatch
		switch token & 15 {
		case 0:
			n = len(dst) - d
		case 15:
			more, w := readMore(src[s:])
			if w == 0 {
				return false
			}
			n, s = n+more, s+w
		}
		if n > len(dst)-d {
			return false
		}
		if uint(offset-1) < uint(d) {
			copyMatch(unsafe.Add(dp, d), offset, n)
		} else {
			at := d + len(dict) - offset
			if offset == 0 || at < 0 || n > len(dict)-at {
				return false
			}
			copyWide(unsafe.Add(dp, d), unsafe.Pointer(&dict[at]), n)
		}
		d += n
	}
	return s == len(src)
}

// readMore reads what appendMore wrote; w is 0 when src ends before. The sum does not overflow:
// each byte adds 255 at most.
func readMore(src []byte) (n, w int) {
	for i, c := range src {
		n += int(c)
		if c != 255 {
			return n, i + 1
		}
	}
	return 0, 0
}

// copyWide copies n bytes, wideCopy at a time, and so up to wideCopy more.
func copyWide(dst, src unsafe.Pointer, n int) {
	for i := 0; i < n; i += wideCopy {
		*(*[wideCopy]byte)(unsafe.Add(dst, i)) = *(*[wideCopy]byte)(unsafe.Add(src, i))
	}
}

// copyMatch copies to dst n bytes that begin offset bytes before it. They may overlap.
func copyMatch(dst unsafe.Pointer, offset, n int) {
	src := unsafe.Add(dst, -offset)
	switch {
	case offset >= wideCopy:
		copyWide(dst, src, n)
	case offset >= 8:
		for i := 0; i < n; i += 8 {
			*(*[8]byte)(unsafe.Add(dst, i)) = *(*[8]byte)(unsafe.Add(src, i))
		}
	default:
		// After 16 bytes the pattern stands there often enough to copy words of it.
		for i := range min(n, 16) {
			*(*byte)(unsafe.Add(dst, i)) = *(*byte)(unsafe.Add(src, i))
		}
		period := 16 / offset * offset
		for i := 16; i < n; i += 8 {
			*(*[8]byte)(unsafe.Add(dst, i)) = *(*[8]byte)(unsafe.Add(dst, i-period))
		}
	}
}

// maxLenBytes is the most that putLen writes.
const maxLenBytes = 5

// putLen writes the length that stands before a packed value outside of blocks, below 1<<33, and
// returns how many bytes it takes.
func putLen(dst []byte, n uint64) int {
	if n < 0x80 {
		dst[0] = byte(n)
		return 1
	}
	return binary.PutUvarint(dst, n)
}
