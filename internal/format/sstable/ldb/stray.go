package ldb

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// strays looks for a block that may begin at any byte of a stretch, and end at any byte behind.
// Trying every beginning with every end takes the square of the stretch; strays takes a time that
// is proportional to it.
//
// The state of a CRC is linear over GF(2). Let A be what a zero byte does to a state, and P(i) the
// state behind the first i bytes of the stretch, from 0 on. Behind the bytes from i up to e, from
// the initial state 1 on (all bits set), it is
//
//	P(e) + A^(e-i) (P(i) + 1)
//
// A block from i to e whose checksum says S has this state if
//
//	A^-e (P(e) + S) = A^-i (P(i) + 1)
//
// The left side depends on the end alone, the right one on the beginning alone: the ends are in a
// hash table, where each beginning finds the ends that belong to it.
type strays struct {
	sums []uint32 // the left side of the end e, where there may be one
	next []int32  // the next end in the same slot, larger; 0: none
	head []int32  // by slot: the least end
}

const (
	strayStarts = 128 << 10 // most beginnings that are looked at together
	fewStarts   = 8 << 10   // those behind a block, where another one may come soon
	stray       = 32        // what a product costs, in steps of walk
)

// inverse is A^-1 of a state in which only the lowest byte is set, by that byte's value: the CRC
// read backwards. Every state is one of these after three bytes.
var inverse = func() (table [256]uint32) {
	for i, v := range castagnoli {
		table[v>>24] = v<<8 ^ uint32(i)
	}
	return table
}()

// back is A^-1 of a state.
func back(state uint32) uint32 { return state<<8 ^ inverse[state>>24] }

// one is the neutral factor of times.
const one = 1 << 31

// times is the product of two states, as polynomials: the highest bit is the coefficient of 1.
func times(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		// All bits of b if the highest bit of a is set, else 0.
		p ^= b & uint32(int32(a)>>31)
		b = b>>1 ^ 0x82f63b78&-(b&1)
	}
	return p
}

// find returns where the first block of b begins, one of the first n bytes, and how long it is with
// its trailer; n if there is none. Of several ends the least one is taken.
func (x *strays) find(b []byte, n int, steps *int64) (start, length int) {
	x.index(b, steps)
	state, factor := uint32(0), uint32(one)
	for i := range n {
		if *steps -= stray; *steps < 0 {
			break
		}
		if end := x.end(times(state^^uint32(0), factor), i, steps); end > 0 {
			return i, end - i + block.TrailerLen - 1
		}
		state = castagnoli[byte(state)^b[i]] ^ state>>8
		factor = back(factor)
	}
	return n, 0
}

// index enters the ends of blocks in b: behind the byte that is the codec.
func (x *strays) index(b []byte, steps *int64) {
	x.sums = grown(x.sums, len(b))
	x.next = grown(x.next, len(b))
	const slots = 1 << 17
	x.head = grown(x.head, slots)
	clear(x.head)
	var ends []int32
	state, factor := uint32(0), uint32(one)
	for i := 0; i+block.TrailerLen <= len(b); i++ {
		state = castagnoli[byte(state)^b[i]] ^ state>>8
		factor = back(factor)
		if b[i] > byte(block.Deflate) {
			continue
		}
		sum := ^base.UnmaskCRC(binary.LittleEndian.Uint32(b[i+1:]))
		x.sums[i+1] = times(state^sum, factor)
		ends = append(ends, int32(i+1))
		*steps -= stray
	}
	*steps -= int64(len(b))
	for j := len(ends) - 1; j >= 0; j-- {
		slot := &x.head[x.sums[ends[j]]%slots]
		x.next[ends[j]], *slot = *slot, ends[j]
	}
}

// end is the least end of a block that begins at start and has something in it; 0: none. Calls
// have ascending starts.
func (x *strays) end(sum uint32, start int, steps *int64) int {
	head := &x.head[sum%uint32(len(x.head))]
	for *head > 0 && int(*head) <= start+1 { // starts ascend
		*head = x.next[*head]
	}
	for e := *head; e > 0 && int(e)-start+block.TrailerLen-1 <= walkStray; e = x.next[e] {
		if *steps--; *steps < 0 {
			break
		}
		if x.sums[e] == sum {
			return int(e)
		}
	}
	return 0
}

// grown is a slice of at least n elements, which has s or replaces it.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
