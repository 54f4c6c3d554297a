package ingest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/offheap"
	"github.com/loamdb/loam/internal/prefix"
)

// pair is an entry of a chunk with the abbreviation of its key.
type pair struct {
	ab  uint64
	off uint32
}

const pairSize = int(unsafe.Sizeof(pair{}))

// chunk is entries in memory, which lies outside of the Go heap: in the order in which they came, and
// once they are sorted in the order of their keys.
//
// An entry in the arena is two varints, the lengths of key and value, and the bytes of both.
type chunk struct {
	cmp    *base.Comparer
	arena  []byte
	used   int
	pairs  []pair // of all entries; abbreviations once sorted
	n      int
	max    int    // entries that it takes
	mem    []byte // of pairs
	prefix prefix.Prefix
	keyLen prefix.Length
}

// newChunk makes a chunk of about so many bytes.
func newChunk(cmp *base.Comparer, size int) (*chunk, error) {
	c := &chunk{cmp: cmp}
	return c, c.resize(size/4*3, max(size/4/(2*pairSize), 16))
}

// resize gives an empty chunk an arena of so many bytes, for so many entries.
func (c *chunk) resize(arena, entries int) (err error) {
	c.free()
	if c.arena, err = offheap.Alloc(arena); err != nil {
		return err
	}
	if c.mem, err = offheap.Alloc(2 * entries * pairSize); err != nil {
		c.free()
		return err
	}
	offheap.AdviseHuge(c.arena)
	offheap.AdviseHuge(c.mem)
	c.max = entries
	c.clear()
	return nil
}

func (c *chunk) free() {
	if c.arena != nil {
		offheap.Free(c.arena)
	}
	if c.mem != nil {
		offheap.Free(c.mem)
	}
	c.arena, c.mem, c.pairs, c.n, c.used = nil, nil, nil, 0, 0
}

func (c *chunk) clear() {
	c.used, c.n, c.prefix = 0, 0, nil
	c.pairs = unsafe.Slice((*pair)(unsafe.Pointer(unsafe.SliceData(c.mem))), c.max)
}

// bytesOf is what an entry takes in an arena at most.
func bytesOf(key, value []byte) int { return len(key) + len(value) + 2*binary.MaxVarintLen32 }

// add appends an entry and reports whether there was room for it.
func (c *chunk) add(key, value []byte) bool {
	if c.n == c.max || bytesOf(key, value) > len(c.arena)-c.used {
		return false
	}
	at := c.used
	b := c.arena
	at += binary.PutUvarint(b[at:], uint64(len(key)))
	at += binary.PutUvarint(b[at:], uint64(len(value)))
	start := at
	at += copy(b[at:], key)
	at += copy(b[at:], value)
	c.pairs[c.n].off = uint32(c.used)
	if c.n == 0 {
		own := b[start : start+len(key) : start+len(key)]
		c.prefix, c.keyLen = prefix.OfOne(c.cmp, own), prefix.LengthOf(key)
	} else {
		c.prefix, c.keyLen = c.prefix.With(key), c.keyLen.With(key)
	}
	c.n++
	c.used = at
	return true
}

// entry is the one at an offset of the arena.
func (c *chunk) entry(off uint32) (key, value []byte) {
	b := c.arena[off:]
	k, n := binary.Uvarint(b)
	v, m := binary.Uvarint(b[n:])
	b = b[n+m:]
	return b[:k:k], b[k : k+v : k+v]
}

func (c *chunk) key(off uint32) []byte {
	key, _ := c.entry(off)
	return key
}

// sort orders the entries by their keys, and drops all but the last one of each key.
func (c *chunk) sort() {
	all := unsafe.Slice((*pair)(unsafe.Pointer(unsafe.SliceData(c.mem))), 2*c.max)
	a, tmp := all[:c.n:c.n], all[c.max:]
	sorted := true
	for i := range a {
		a[i].ab = c.prefix.Abbrev(c.cmp, c.key(a[i].off))
		sorted = sorted && (i == 0 || a[i-1].ab < a[i].ab)
	}
	if !sorted {
		radix(a, tmp, topShift(a))
		c.sortTies(a)
		a = c.last(a)
	}
	c.pairs, c.n = a, len(a)
}

// sortTies orders the entries with equal abbreviations. They are in the order in which they came.
func (c *chunk) sortTies(a []pair) {
	if c.keyLen.Exact(c.cmp, len(c.prefix)) {
		return
	}
	for i := 0; i < len(a); {
		j := i + 1
		for j < len(a) && a[j].ab == a[i].ab {
			j++
		}
		if j-i > 1 {
			slices.SortStableFunc(a[i:j], func(x, y pair) int { return c.cmp.Cmp(c.key(x.off), c.key(y.off)) })
		}
		i = j
	}
}

// last drops all but the last entry of each key.
func (c *chunk) last(a []pair) []pair {
	exact := c.keyLen.Exact(c.cmp, len(c.prefix))
	n := 0
	for i := range a {
		if n > 0 && a[n-1].ab == a[i].ab && (exact || c.cmp.Cmp(c.key(a[n-1].off), c.key(a[i].off)) == 0) {
			n--
		}
		a[n] = a[i]
		n++
	}
	return a[:n]
}

const (
	radixBits = 8
	fewPairs  = 32 // insertion sort below
)

// topShift is the lowest bit of the highest digit in which the pairs differ.
func topShift(a []pair) int {
	var diff uint64
	for i := range a {
		diff |= a[i].ab ^ a[0].ab
	}
	return max(64-bits.LeadingZeros64(diff)-radixBits, 0)
}

// radix sorts a, stably, by the bits of abbreviations below shift + radixBits; the bits above are
// equal. tmp is as long as a.
func radix(a, tmp []pair, shift int) {
	if len(a) <= fewPairs {
		insertion(a)
		return
	}
	const digits = 1 << radixBits
	var count [digits]int32
	for i := range a {
		count[a[i].ab>>shift&(digits-1)]++
	}
	below := max(shift-radixBits, 0)
	if int(count[a[0].ab>>shift&(digits-1)]) == len(a) { // all have the same digit
		if shift > 0 {
			radix(a, tmp, below)
		}
		return
	}
	var next [digits]int32
	sum := int32(0)
	for d, n := range count {
		next[d] = sum
		sum += n
	}
	tmp = tmp[:len(a)]
	for i := range a {
		d := a[i].ab >> shift & (digits - 1)
		tmp[next[d]] = a[i]
		next[d]++
	}
	copy(a, tmp)
	if shift == 0 {
		return
	}
	from := int32(0)
	for _, n := range count {
		if n > 1 {
			radix(a[from:from+n], tmp, below)
		}
		from += n
	}
}

func insertion(a []pair) {
	for i := 1; i < len(a); i++ {
		p := a[i]
		j := i
		for j > 0 && a[j-1].ab > p.ab {
			a[j] = a[j-1]
			j--
		}
		a[j] = p
	}
}

// seek is the index of the first sorted entry at or behind key.
func (c *chunk) seek(key []byte) int {
	i, _ := slices.BinarySearchFunc(c.pairs[:c.n], key, func(p pair, key []byte) int { return c.cmp.Cmp(c.key(p.off), key) })
	return i
}

// shared is the longest prefix of two sets of keys together.
func shared(a, b prefix.Prefix) prefix.Prefix { return bytes.Clone(a.With(b)) }
