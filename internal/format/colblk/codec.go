package colblk

import (
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
)

// plainZstd unpacks zstd without a dictionary.
var plainZstd = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(1<<32))
})

var (
	errNoDict  = errors.New("the table has no dictionary")
	errNoCodec = errors.New("unknown codec")
	errShort   = corrupt("a short value does not unpack to its length")
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
	case base.CodecSnappy:
		d, err := s2.DecodedLen(p)
		if err != nil {
			return 0, nil, corrupt("snappy: %v", err)
		}
		// Three bytes of input give at most 64 of output in snappy; its extension s2 has
		// longer copies, which no table holds.
		if uint64(d) > 24*uint64(len(p))+64 {
			return 0, nil, corrupt("snappy: %d bytes cannot become %d", len(p), d)
		}
		return uint64(d), p, nil
	case base.CodecZstd, base.CodecZstdDict:
		var h zstd.Header
		if err := h.Decode(p); err != nil {
			return 0, nil, corrupt("zstd: %v", err)
		}
		if !h.HasFCS {
			return 0, nil, corrupt("zstd: frame without its content's size")
		}
		return h.FrameContentSize, p, nil
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
	var out []byte
	var err error
	switch c {
	case base.CodecRaw:
		if out = p; len(p) == len(dst) {
			copy(dst, p)
		}
	case base.CodecShort:
		if unpackShort(dst, p, nil, readable) {
			return nil
		}
		return errShort
	case base.CodecShortDict:
		switch {
		case dict == nil:
			err = errNoDict
		case unpackShort(dst, p, dict.content, readable):
			return nil
		default:
			return errShort
		}
	case base.CodecSnappy:
		// Into memory of its own if dst were too short.
		if n, _ := s2.DecodedLen(p); n == len(dst) {
			out, err = s2.Decode(dst, p)
		}
	case base.CodecZstd:
		var dec *zstd.Decoder
		if dec, err = plainZstd(); err == nil {
			out, err = dec.DecodeAll(p, dst[:0:len(dst)])
		}
	case base.CodecZstdDict:
		var dec *zstd.Decoder
		if dec, err = dict.zstd(); err == nil {
			out, err = dec.DecodeAll(p, dst[:0:len(dst)])
		}
	default:
		err = errNoCodec
	}
	if err != nil || len(out) != len(dst) {
		return corrupt("codec %d: %d bytes instead of %d: %v", c, len(out), len(dst), err)
	}
	return nil
}
