package filter

import (
	"encoding/binary"
	"math"

	"github.com/loamdb/loam/internal/base"
)

// LevelDBName is the name of LevelDB's filter policy in a metaindex.
const LevelDBName = "filter.leveldb.BuiltinBloomFilter2"

// LevelDB's filter block:
//
//	filters
//	offsets   u32 each, of the filters, for every 2 KiB of data block offsets
//	start     u32, of the offsets
//	baseLg    u8, 11
//
// A filter is a bit array and a byte that counts the probes.
const baseLg = 11

// levelDBHash is the hash of LevelDB's Bloom filter: Murmur-like, 32 bits.
func levelDBHash(key []byte) uint32 {
	const seed, m = 0xbc9f1d34, 0xc6a4a793
	h := uint32(seed) ^ uint32(len(key))*m
	for len(key) >= 4 {
		h += binary.LittleEndian.Uint32(key)
		h *= m
		h ^= h >> 16
		key = key[4:]
	}
	if len(key) > 0 {
		for i, c := range key {
			h += uint32(c) << (8 * i)
		}
		h *= m
		h ^= h >> 24
	}
	return h
}

// LevelDBBuilder makes LevelDB's filter block: StartBlock for each data block,
// Add for its keys.
type LevelDBBuilder struct {
	bitsPerKey int
	hashes     []uint32 // keys since the last filter
	filters    []byte
	offsets    []uint32
}

// NewLevelDBBuilder returns an empty builder.
func NewLevelDBBuilder(bitsPerKey int) *LevelDBBuilder {
	return &LevelDBBuilder{bitsPerKey: min(max(bitsPerKey, 1), MaxBitsPerKey)}
}

// StartBlock says that the following keys belong to the data block at offset.
func (b *LevelDBBuilder) StartBlock(offset uint64) {
	for uint64(len(b.offsets)) < offset>>baseLg {
		b.generate()
	}
}

// Add adds a user key. A key added twice counts twice, as in LevelDB.
func (b *LevelDBBuilder) Add(key []byte) { b.hashes = append(b.hashes, levelDBHash(key)) }

// Size is the length of the block that Finish would return now.
func (b *LevelDBBuilder) Size() int {
	n := len(b.filters) + 4*len(b.offsets) + 5
	if len(b.hashes) > 0 {
		n += len(b.hashes)*b.bitsPerKey/8 + 6
	}
	return n
}

// Finish returns the filter block.
func (b *LevelDBBuilder) Finish() []byte {
	if len(b.hashes) > 0 {
		b.generate()
	}
	start := uint32(len(b.filters))
	for _, o := range b.offsets {
		b.filters = binary.LittleEndian.AppendUint32(b.filters, o)
	}
	b.filters = binary.LittleEndian.AppendUint32(b.filters, start)
	b.filters = append(b.filters, baseLg)
	return b.filters
}

func (b *LevelDBBuilder) generate() {
	from := len(b.filters)
	b.offsets = append(b.offsets, uint32(from))
	if len(b.hashes) == 0 {
		return
	}
	k := min(max(b.bitsPerKey*69/100, 1), 30)
	size := (max(len(b.hashes)*b.bitsPerKey, 64) + 7) / 8
	for range size {
		b.filters = append(b.filters, 0)
	}
	array := b.filters[from:]
	bits := uint32(size) * 8
	for _, h := range b.hashes {
		delta := h>>17 | h<<15
		for range k {
			pos := h % bits
			array[pos/8] |= 1 << (pos % 8)
			h += delta
		}
	}
	b.filters = append(b.filters, byte(k))
	b.hashes = b.hashes[:0]
}

// LevelDB is a parsed filter block. The zero value admits every key.
type LevelDB struct {
	filters []byte
	offsets []byte // u32 each; the one after the last is the end of filters
	count   uint64
	lg      uint8
}

// ParseLevelDB checks the form of a filter block; the LevelDB aliases b.
func ParseLevelDB(b []byte) (LevelDB, error) {
	n := len(b)
	if n < 5 {
		return LevelDB{}, base.Corruptf("table filter", "%d bytes are too few", n)
	}
	start, lg := uint64(binary.LittleEndian.Uint32(b[n-5:])), b[n-1]
	switch {
	case start > uint64(n-5) || (uint64(n-5)-start)%4 != 0:
		return LevelDB{}, base.Corruptf("table filter", "offsets cannot start at %d of %d bytes",
			start, n)
	case lg > 62:
		return LevelDB{}, base.Corruptf("table filter", "%d is no block size's logarithm", lg)
	}
	f := LevelDB{filters: b[:start:start], offsets: b[start : n-1],
		count: (uint64(n-5) - start) / 4, lg: lg}
	last := uint32(0)
	for i := range f.count {
		o := f.offset(i)
		if o < last || uint64(o) > start {
			return LevelDB{}, base.Corruptf("table filter", "filter %d at %d is out of order", i, o)
		}
		last = o
	}
	return f, nil
}

func (f *LevelDB) offset(i uint64) uint32 { return binary.LittleEndian.Uint32(f.offsets[4*i:]) }

// MayContain reports whether the key may be in the data block at offset.
func (f *LevelDB) MayContain(offset uint64, key []byte) bool {
	i := offset >> f.lg
	if i >= f.count {
		return true
	}
	filter := f.filters[f.offset(i):f.offset(i+1)]
	if len(filter) < 2 {
		return false // these 2 KiB of the file have no keys
	}
	array, k := filter[:len(filter)-1], filter[len(filter)-1]
	if k > 30 || uint64(len(array)) > math.MaxUint32/8 {
		return true // reserved for other encodings, or more bits than the hash tells apart
	}
	bits := uint32(len(array)) * 8
	h := levelDBHash(key)
	delta := h>>17 | h<<15
	for range k {
		pos := h % bits
		if array[pos/8]&(1<<(pos%8)) == 0 {
			return false
		}
		h += delta
	}
	return true
}
