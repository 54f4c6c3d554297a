package seal

import (
	"crypto/cipher"
	"encoding/binary"
)

// Overhead is what Seal adds to bytes.
const Overhead = tagLen

// A Sealer seals parts of one file. Only Keys.New makes one, with a data key that it draws: opening
// a file gives an Opener, so that no file is continued by a second writer. No two parts have the
// same place, which is the nonce: the pair of at, an offset or a count, and turn. A Sealer is used
// by one goroutine at a time.
type Sealer struct{ part }

// An Opener opens parts of one file. It is used by one goroutine at a time.
type Opener struct{ part }

// part is what both are made of.
type part struct {
	aead  cipher.AEAD
	nonce [nonceLen]byte
}

func (c *part) place(at uint64, turn uint32) []byte {
	binary.LittleEndian.PutUint64(c.nonce[:], at)
	binary.LittleEndian.PutUint32(c.nonce[8:], turn)
	return c.nonce[:]
}

// Seal appends p to dst, sealed, with its tag behind it. p may lie where it is appended. bound are
// bytes that must be the same when the part is opened.
func (c *Sealer) Seal(dst, p []byte, at uint64, turn uint32, bound []byte) []byte {
	return c.aead.Seal(dst, c.place(at, turn), p, bound)
}

// Open appends the bytes of a sealed part to dst. ok is false, and dst as it was, if the part was
// not sealed at this place of this file, with these bound bytes.
func (c *Opener) Open(dst, p []byte, at uint64, turn uint32, bound []byte) (out []byte, ok bool) {
	out, err := c.aead.Open(dst, c.place(at, turn), p, bound)
	if err != nil {
		return dst, false
	}
	return out, true
}
