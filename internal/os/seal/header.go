package seal

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"io"

	"github.com/loamdb/loam/internal/base"
)

// Magic begins the Header.
const Magic = "LoamSeal"

// Kind is how a file is sealed.
type Kind byte

// The kinds. DO NOT CHANGE THESE VALUES: they are in files.
const (
	Chunks  Kind = 1 // chunks of one length, see FS
	Records Kind = 2 // the chunks of a log or MANIFEST, see package record
)

const (
	version  = 1
	nonceLen = 12
	tagLen   = 16
	maxName  = 255

	// Offsets in a copy of the header.
	atVersion = 8 // behind Magic
	atKind    = atVersion + 1
	atNames   = atKind + 1 // lengths of the provider's name and of the key's id
	atNumber  = atNames + 2
	atNonce   = atNumber + 8
	atWrapped = atNonce + nonceLen
	atName    = atWrapped + KeyLen + tagLen
	crcLen    = 4

	copyLen = atName + 2*maxName + crcLen

	// HeaderLen is the length of a Header in bytes, whatever names it has: a file with another key
	// has the same size. It is there twice: without it nothing of the file can be salvaged.
	HeaderLen = 2 * copyLen
)

// Header begins a sealed file. Nothing of it is secret.
type Header struct {
	Kind     Kind
	Number   uint64 // of the file in its database; 0: it has none
	Provider string
	KeyID    string // of the key that wraps the data key

	nonce   [nonceLen]byte // of the wrapping
	wrapped []byte
}

// bound is what the wrapping authenticates besides the data key.
func (h *Header) bound() []byte {
	b := append([]byte(Magic), version, byte(h.Kind), byte(len(h.Provider)), byte(len(h.KeyID)))
	b = binary.LittleEndian.AppendUint64(b, h.Number)
	return append(append(b, h.Provider...), h.KeyID...)
}

// encode wraps the data key.
func (h *Header) encode(a cipher.AEAD, nonce, dataKey []byte) []byte {
	bound := h.bound()
	b := append(make([]byte, 0, HeaderLen), bound[:atNonce]...)
	b = append(b, nonce...)
	b = a.Seal(b, nonce, dataKey, bound)
	b = append(b, bound[atNonce:]...)
	b = b[:copyLen-crcLen] // with zeros
	b = binary.LittleEndian.AppendUint32(b, base.MaskCRC(base.CRC(b)))
	return append(b, b...)
}

const kindHeader = "encryption header"

// Decode reads the Header at the beginning of b. It returns nil where neither copy begins with
// Magic, base.ErrNewerFormat for a later version, a *base.Corruption for damage.
func Decode(b []byte) (*Header, error) {
	if !begins(b) && (len(b) < copyLen || !begins(b[copyLen:])) {
		return nil, nil
	}
	if len(b) < HeaderLen {
		return nil, base.Corruptf(kindHeader, "it ends after %d bytes", len(b))
	}
	if !bytes.Equal(b[:copyLen], b[copyLen:HeaderLen]) {
		return nil, base.Corruptf(kindHeader, "its two copies differ")
	}
	return decodeCopy(b)
}

// Salvage reads the Header at the beginning of b as long as one copy is intact. It returns nil if
// none is.
func Salvage(b []byte) *Header {
	for ; len(b) >= copyLen; b = b[copyLen:] {
		if h, err := decodeCopy(b); begins(b) && err == nil {
			return h
		}
		if len(b) < HeaderLen {
			break
		}
	}
	return nil
}

func begins(b []byte) bool { return len(b) >= len(Magic) && string(b[:len(Magic)]) == Magic }

// decodeCopy reads one copy, which is whole.
func decodeCopy(b []byte) (*Header, error) {
	const end = copyLen - crcLen
	if sum := binary.LittleEndian.Uint32(b[end:]); sum != base.MaskCRC(base.CRC(b[:end])) {
		return nil, base.Corruptf(kindHeader, "checksum mismatch")
	}
	if b[atVersion] != version {
		return nil, base.ErrNewerFormat
	}
	h := &Header{Kind: Kind(b[atKind]), Number: binary.LittleEndian.Uint64(b[atNumber:]),
		wrapped: append([]byte(nil), b[atWrapped:atName]...)}
	copy(h.nonce[:], b[atNonce:])
	idAt := atName + int(b[atNames])
	h.Provider, h.KeyID = string(b[atName:idAt]), string(b[idAt:idAt+int(b[atNames+1])])
	if h.Kind != Chunks && h.Kind != Records {
		return nil, base.Corruptf(kindHeader, "unknown kind %d", h.Kind)
	}
	return h, nil
}

// Read is Decode of the first bytes of a file.
func Read(r io.ReaderAt) (*Header, error) {
	b, err := readBegin(r)
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// readBegin reads as many bytes of a file as a Header has.
func readBegin(r io.ReaderAt) ([]byte, error) {
	b := make([]byte, HeaderLen)
	n, err := r.ReadAt(b, 0)
	if n == len(b) || err == io.EOF {
		err = nil
	}
	return b[:n], err
}
