package ingest

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/memory/radix"
)

const pairSize = int(unsafe.Sizeof(radix.Pair{}))

// chunk is entries in memory, which lies outside of the Go heap: in the order in which they came,
// and once they are sorted in the order of their keys.
//
// An entry in the arena is two varints, the lengths of key and value, and the bytes of both.
type chunk struct {
	cmp    *base.Comparer
	arena  []byte
	used   int
	pairs  []radix.Pair // of all entries; abbreviations once sorted
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
	c.pairs = unsafe.Slice((*radix.Pair)(unsafe.Pointer(unsafe.SliceData(c.mem))), c.max)
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
	c.pairs[c.n].Off = uint32(c.used)
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

// sort orders the entries by their keys, and drops all but the last one of each key. It ends early
// with the error of stop, and can be called again then.
func (c *chunk) sort(stop func() error) error {
	all := unsafe.Slice((*radix.Pair)(unsafe.Pointer(unsafe.SliceData(c.mem))), 2*c.max)
	a, tmp := all[:c.n:c.n], all[c.max:]
	sorted := true
	for i := range a {
		a[i].Ab = c.prefix.Abbrev(c.cmp, c.key(a[i].Off))
		sorted = sorted && (i == 0 || a[i-1].Ab < a[i].Ab)
	}
	if !sorted {
		radix.Sort(a, tmp, false)
		if err := c.sortTies(a, stop); err != nil {
			return err
		}
		a = c.last(a)
	}
	c.pairs, c.n = a, len(a)
	return nil
}

// sortTies orders the entries with equal abbreviations. They are in the order in which they came.
func (c *chunk) sortTies(a []radix.Pair, stop func() error) (err error) {
	if c.keyLen.Exact(c.cmp, len(c.prefix)) {
		return nil
	}
	compared := 0
	compare := func(x, y radix.Pair) int {
		if compared++; err == nil && compared%checkEvery == 0 {
			err = stop()
		}
		if err != nil {
			return 0 // the sort soon ends
		}
		if order := c.cmp.Cmp(c.key(x.Off), c.key(y.Off)); order != 0 {
			return order
		}
		return cmp.Compare(x.Off, y.Off)
	}
	for i := 0; i < len(a); {
		j := i + 1
		for j < len(a) && a[j].Ab == a[i].Ab {
			j++
		}
		if j-i > 1 {
			slices.SortFunc(a[i:j], compare)
		}
		i = j
	}
	return err
}

// last drops all but the last entry of each key.
func (c *chunk) last(a []radix.Pair) []radix.Pair {
	exact := c.keyLen.Exact(c.cmp, len(c.prefix))
	n := 0
	for i := range a {
		if n > 0 && a[n-1].Ab == a[i].Ab &&
			(exact || c.cmp.Cmp(c.key(a[n-1].Off), c.key(a[i].Off)) == 0) {
			n--
		}
		a[n] = a[i]
		n++
	}
	return a[:n]
}

// sample is the values of blocks of about size bytes, in places all over the sorted chunk.
func (c *chunk) sample(size int) (blocks [][][]byte) {
	at := 0
	for i := range colblk.SampleBlocks {
		var values [][]byte
		n := 0
		for at = max(at, c.n/colblk.SampleBlocks*i); at < c.n && n < size; at++ {
			key, value := c.entry(c.pairs[at].Off)
			values = append(values, value)
			n += len(key) + len(value)
		}
		blocks = append(blocks, values)
	}
	return blocks
}

// seek is the index of the first sorted entry at or behind key.
func (c *chunk) seek(key []byte) int {
	i, _ := slices.BinarySearchFunc(c.pairs[:c.n], key, func(p radix.Pair, key []byte) int {
		return c.cmp.Cmp(c.key(p.Off), key)
	})
	return i
}
