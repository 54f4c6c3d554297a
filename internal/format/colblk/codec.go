package colblk

import (
	"errors"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

var (
	errNoDict = errors.New("the table has no dictionary")
	errShort  = corrupt("a short value does not unpack to its length")
)

func tooLong(n uint64, limit int64) error {
	return corrupt("%d bytes when unpacked, allowed are %d", n, limit)
}

// splitPacked returns the length that p, packed by c, has when it is unpacked, as p says, and p
// without that if it does not belong to the codec.
func splitPacked(p []byte, c base.Codec) (n uint64, body []byte, err error) {
	switch c {
	case base.CodecRaw:
		return uint64(len(p)), p, nil
	case base.CodecShort:
		v, w := base.Uvarint32(p)
		if w == 0 {
			return 0, nil, corrupt("a packed value without its length")
		}
		return uint64(v), p[w:], nil
	case base.CodecSnappy, base.CodecZstd, base.CodecZstdDict:
		n, err := block.UnpackedLen(p, block.Codec(min(c, base.CodecZstd)))
		return n, p, err
	}
	return 0, nil, corrupt("unknown codec %d", c)
}

// AppendUnpacked appends what p, packed by c, stands for, and refuses more than limit
// bytes of it. dict is that of the table, nil where it has none.
func AppendUnpacked(dst, p []byte, c base.Codec, dict *Dict, limit int64) ([]byte, error) {
	n, body, err := splitPacked(p, c)
	if err != nil {
		return dst, err
	}
	if n > uint64(max(limit, 0)) {
		return dst, tooLong(n, limit)
	}
	return appendUnpacked(dst, body, c, dict, int(n), len(body))
}

// appendUnpacked appends the n bytes that p, without its length, stands for. readable is how many
// bytes from p's start may be read.
func appendUnpacked(dst, p []byte, c base.Codec, dict *Dict, n, readable int) ([]byte, error) {
	if c == base.CodecRaw {
		return append(dst, p...), nil
	}
	from := len(dst)
	if cap(dst)-from < n+wideCopy {
		dst = slices.Grow(dst, n+wideCopy)
	}
	if err := unpackInto(dst[from:from+n], p, c, dict, readable); err != nil {
		return dst, err
	}
	return dst[:from+n], nil
}

// unpackInto unpacks p, without its length, to dst, which has that length. wideCopy bytes behind
// dst may be overwritten.
func unpackInto(dst, p []byte, c base.Codec, dict *Dict, readable int) error {
	switch c {
	case base.CodecRaw:
		if copy(dst, p) == len(dst) && len(p) == len(dst) {
			return nil
		}
	case base.CodecShort:
		if unpackShort(dst, p, nil, readable) {
			return nil
		}
	case base.CodecShortDict:
		if dict == nil {
			return corrupt("codec %d: %v", c, errNoDict)
		}
		if unpackShort(dst, p, dict.content, readable) {
			return nil
		}
	case base.CodecSnappy, base.CodecZstd:
		return block.Unpack(dst, p, block.Codec(c))
	case base.CodecZstdDict:
		dec, err := dict.zstd()
		var out []byte
		if err == nil {
			out, err = dec.DecodeAll(p, dst[:0:len(dst)])
		}
		if err == nil && len(out) == len(dst) {
			return nil
		}
		return corrupt("codec %d: %d bytes instead of %d: %v", c, len(out), len(dst), err)
	}
	return corrupt("codec %d: not %d bytes", c, len(dst))
}
