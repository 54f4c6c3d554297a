// Package filter implements the two kinds of Bloom filters that tables carry: one
// for the whole table that touches a single cache line per key (Table), and
// LevelDB's, one per 2 KiB of file (LevelDB).
//
// Filters are read-only and safe for concurrent use; they do not own the memory
// they look at. Builders belong to one goroutine at a time.
package filter

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// A whole-table filter as stored:
//
//	lines   64 bytes each
//	count   u32, number of lines
//	probes  u8, bits set per key, 1..7
//	version u8, 1
//	zero    u16
//
// The high bits of a key's hash choose its line; nine bits for each probe come
// from the hash times an odd constant.
const (
	lineBytes = 64
	lineBits  = 8 * lineBytes
	footerLen = 8
	version   = 1
	maxProbes = 7 // times 9 bits: all that one word gives

	usualProbes = 6 // at 9 to 11 bits per key
	mix         = 0x9e3779b97f4a7c15

	// A large filter is built in the background, in steps of some 100 us, between
	// which other goroutines get the processor.
	yieldEvery = 1 << 13
)

// MaxBitsPerKey is the largest number of bits per key that makes sense.
const MaxBitsPerKey = 64

// Size is the number of bytes of a filter over n keys.
func Size(n, bitsPerKey int) int {
	return numLines(n, bitsPerKey)*lineBytes + footerLen
}

func numLines(n, bitsPerKey int) int {
	b := uint64(n) * uint64(min(max(bitsPerKey, 1), MaxBitsPerKey))
	return int(max((b+lineBits-1)/lineBits, 1))
}

func numProbes(bitsPerKey int) int {
	// Lines differ in load, so a little fewer probes than the classic 0.69 a bit.
	return min(max((bitsPerKey*6+5)/10, 1), maxProbes)
}

// Build appends the filter over the keys with these hashes (base.Hash).
func Build(dst []byte, hashes []uint64, bitsPerKey int) []byte {
	n, k := numLines(len(hashes), bitsPerKey), numProbes(bitsPerKey)
	from := len(dst)
	if need := from + n*lineBytes + footerLen; need > cap(dst) {
		dst = append(make([]byte, 0, need), dst...)
	}
	lines := dst[from : from+n*lineBytes]
	clear(lines)
	for i, h := range hashes {
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
		hi, _ := bits.Mul64(h, uint64(n))
		line := (*[lineBytes]byte)(lines[hi*lineBytes:])
		x := h * mix
		for range k {
			line[x>>58] |= 1 << (x >> 55 & 7)
			x <<= 9
		}
	}
	dst = dst[:from+n*lineBytes]
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return append(dst, byte(k), version, 0, 0)
}

// Table is a whole-table filter.
type Table struct {
	lines  []byte
	count  uint64
	probes uint8
}

// Parse checks the form of a stored filter; the Table aliases b.
func Parse(b []byte) (Table, error) {
	n := len(b) - footerLen
	if n < lineBytes {
		return Table{}, base.Corruptf("table filter", "%d bytes are too few", len(b))
	}
	foot := b[n:]
	count, probes := uint64(binary.LittleEndian.Uint32(foot)), foot[4]
	switch {
	case foot[5] != version:
		return Table{}, base.Corruptf("table filter", "version %d is not known", foot[5])
	case count*lineBytes != uint64(n):
		return Table{}, base.Corruptf("table filter", "%d lines do not make %d bytes", count, n)
	case probes == 0 || probes > maxProbes || foot[6]|foot[7] != 0:
		return Table{}, base.Corruptf("table filter", "malformed footer")
	}
	return Table{lines: b[:n:n], count: count, probes: probes}, nil
}

// Prefetch has the processor fetch what MayContain(h) will look at.
func (t *Table) Prefetch(h uint64) {
	hi, _ := bits.Mul64(h, t.count)
	offheap.Prefetch(unsafe.Pointer(&t.lines[hi*lineBytes]), 1)
}

// MayContain reports whether a key with this hash may be in the table.
func (t *Table) MayContain(h uint64) bool {
	hi, _ := bits.Mul64(h, t.count)
	line := (*[lineBytes]byte)(t.lines[hi*lineBytes:])
	x := h * mix
	if t.probes == usualProbes {
		// Without branches: the line is one cache miss, the rest is arithmetic.
		return bit(line, x)&bit(line, x<<9)&bit(line, x<<18)&bit(line, x<<27)&bit(line,
			x<<36)&bit(line, x<<45)&1 != 0
	}
	r := byte(1)
	for range t.probes {
		r &= bit(line, x)
		x <<= 9
	}
	return r != 0
}

// bit returns, in its lowest bit, the bit of the line that the top nine bits
// of x name.
func bit(line *[lineBytes]byte, x uint64) byte {
	return line[x>>58] >> (x >> 55 & 7)
}
