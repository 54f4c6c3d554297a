package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// ReadFrame reads a length of 4 bytes, little-endian, and as many bytes, at most limit.
func ReadFrame(r io.Reader, limit uint32) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(n[:])
	if size > limit {
		return nil, fmt.Errorf("frame of %d bytes, at most %d go", size, limit)
	}
	var b bytes.Buffer
	// memory grows with what arrives, not with what the length says
	if _, err := io.CopyN(&b, r, int64(size)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
