package seal

import (
	"crypto/cipher"
	"encoding/binary"
)

// Overhead is what Seal adds to bytes.
const Overhead = tagLen

// Cipher seals and opens parts of one file. No two parts have the same place: the pair of at, which
// is an offset or a count, and turn. A Cipher is used by one goroutine at a time.
type Cipher struct {
	aead  cipher.AEAD
	nonce [nonceLen]byte
}

func newCipher(dataKey []byte) *Cipher { return &Cipher{aead: newGCM(dataKey)} }

func (c *Cipher) place(at uint64, turn uint32) []byte {
	binary.LittleEndian.PutUint64(c.nonce[:], at)
	binary.LittleEndian.PutUint32(c.nonce[8:], turn)
	return c.nonce[:]
}

// Seal appends p to dst, sealed, with its tag behind it. p may lie where it is appended. bound are
// bytes that must be the same when the part is opened.
func (c *Cipher) Seal(dst, p []byte, at uint64, turn uint32, bound []byte) []byte {
	return c.aead.Seal(dst, c.place(at, turn), p, bound)
}

// Open appends the bytes of a sealed part to dst. ok is false, and dst as it was, if the part was
// not sealed at this place of this file, with these bound bytes.
func (c *Cipher) Open(dst, p []byte, at uint64, turn uint32, bound []byte) (out []byte, ok bool) {
	out, err := c.aead.Open(dst, c.place(at, turn), p, bound)
	if err != nil {
		return dst, false
	}
	return out, true
}
