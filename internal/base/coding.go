package base

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC is the crc32c of the concatenation of parts.
func CRC(parts ...[]byte) uint32 {
	var c uint32
	for _, p := range parts {
		c = crc32.Update(c, castagnoli, p)
	}
	return c
}

// CRCUpdate extends crc by p.
func CRCUpdate(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// MaskCRC is LevelDB's mask: a crc stored beside the data it covers is rotated
// and offset so that a crc of data with embedded crcs stays strong.
func MaskCRC(c uint32) uint32 { return (c>>15 | c<<17) + 0xa282ead8 }

// UnmaskCRC undoes MaskCRC.
func UnmaskCRC(m uint32) uint32 {
	m -= 0xa282ead8
	return m>>17 | m<<15
}

// Uvarint32 decodes a varint of at most 32 bits. n is 0 when b is too short or
// the value does not fit.
func Uvarint32(b []byte) (v uint32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint32(b[0]), 1
	}
	x, n := binary.Uvarint(b)
	if n <= 0 || n > 5 || x > 1<<32-1 {
		return 0, 0
	}
	return uint32(x), n
}

// AppendBytes appends a varint length and p.
func AppendBytes(dst, p []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p)))
	return append(dst, p...)
}

// CutBytes takes a length-prefixed string off the front of b. ok is false when
// the length is malformed or exceeds what is left.
func CutBytes(b []byte) (p, rest []byte, ok bool) {
	n, w := Uvarint32(b)
	if w == 0 || uint64(n) > uint64(len(b)-w) {
		return nil, nil, false
	}
	end := w + int(n)
	return b[w:end:end], b[end:], true
}

// Cutter cuts values off the front of B. The first one that is malformed, or not there whole, makes
// it Bad: that value and all later ones are zero.
type Cutter struct {
	B   []byte
	Bad bool
}

// Bytes cuts n bytes off.
func (c *Cutter) Bytes(n int) []byte {
	if c.Bad || n > len(c.B) {
		c.B, c.Bad = nil, true
		return nil
	}
	p := c.B[:n:n]
	c.B = c.B[n:]
	return p
}

// Byte cuts a byte off.
func (c *Cutter) Byte() byte {
	if b := c.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Uvarint cuts a varint off.
func (c *Cutter) Uvarint() uint64 {
	v, n := binary.Uvarint(c.B)
	if c.Bad = c.Bad || n <= 0; c.Bad {
		return 0
	}
	c.B = c.B[n:]
	return v
}

// Uvarint32 cuts off a varint of at most 32 bits.
func (c *Cutter) Uvarint32() uint32 {
	v, n := Uvarint32(c.B)
	if c.Need(n > 0); c.Bad {
		return 0
	}
	c.B = c.B[n:]
	return v
}

// Need makes c Bad unless ok.
func (c *Cutter) Need(ok bool) { c.Bad = c.Bad || !ok }

// Varint cuts a signed varint off.
func (c *Cutter) Varint() int64 {
	v := c.Uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// Sized cuts off a varint of at most 32 bits, and as many bytes.
func (c *Cutter) Sized() []byte {
	p, rest, ok := CutBytes(c.B)
	if c.Need(ok); c.Bad {
		return nil
	}
	c.B = rest
	return p
}

// String cuts off a varint of at most limit, and as many bytes.
func (c *Cutter) String(limit int) string {
	n := c.Uvarint()
	c.Bad = c.Bad || n > uint64(limit)
	if c.Bad {
		return ""
	}
	return string(c.Bytes(int(n)))
}

// Hash is the one hash of a user key that the memtable's index, the filters
// and the blocks' fingerprints share.
func Hash(key []byte) uint64 { return xxhash.Sum64(key) }
