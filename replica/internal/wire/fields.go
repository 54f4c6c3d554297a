package wire

import "encoding/binary"

// Fields reads one field after the other. After a malformed one Bad is set, and all are empty.
type Fields struct {
	Rest []byte
	Bad  bool
}

// Number reads an unsigned varint.
func (f *Fields) Number() uint64 {
	n, size := binary.Uvarint(f.Rest)
	if size <= 0 {
		f.Rest, f.Bad = nil, true
		return 0
	}
	f.Rest = f.Rest[size:]
	return n
}

// Bytes reads a length and as many bytes, which lie in Rest.
func (f *Fields) Bytes() []byte {
	n := f.Number()
	if n > uint64(len(f.Rest)) {
		f.Rest, f.Bad = nil, true
		return nil
	}
	out := f.Rest[:n:n]
	f.Rest = f.Rest[n:]
	return out
}

// One reads a byte.
func (f *Fields) One() byte {
	if len(f.Rest) == 0 {
		f.Bad = true
		return 0
	}
	out := f.Rest[0]
	f.Rest = f.Rest[1:]
	return out
}

// Bool reads a byte that is 0 or 1.
func (f *Fields) Bool() bool {
	b := f.One()
	if b > 1 {
		f.Bad = true
	}
	return b == 1
}

// AppendBytes appends a length and the bytes.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
