package block

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
)

// Codec is a block's codec byte.
type Codec byte

// DO NOT CHANGE THESE VALUES: they stand in tables. Minecraft's LevelDB gives
// zlib the number 2 as well; the stored bytes tell it from zstd.
const (
	None    Codec = 0
	Snappy  Codec = 1
	Zstd    Codec = 2
	Deflate Codec = 4 // Minecraft's: deflate without zlib's frame
)

// MaxCompressed is the largest block that is compressed, unless Compressor.Max is less.
const MaxCompressed = 32 << 20

// DefaultMaxDecoded is the largest block that readers decompress unless told
// otherwise.
const DefaultMaxDecoded = 64 << 20

// Compressor packs blocks with one codec.
type Compressor struct {
	Max   int // the largest block that is compressed; MaxCompressed if the user does not lower it
	codec Codec
	zstd  *zstd.Encoder
}

// NewCompressor returns a compressor for None, Snappy or Zstd at level (zstd's
// own scale; 0 for its default).
func NewCompressor(c Codec, level int) (*Compressor, error) {
	switch c {
	case None, Snappy:
		return &Compressor{Max: MaxCompressed, codec: c}, nil
	case Zstd:
		if level <= 0 {
			level = 3
		}
		enc, err := zstdEncoder(zstd.EncoderLevelFromZstd(level))
		if err != nil {
			return nil, err
		}
		return &Compressor{Max: MaxCompressed, codec: c, zstd: enc}, nil
	}
	return nil, fmt.Errorf("%w: blocks cannot be written with codec %d", base.ErrInvalidArgument, c)
}

// Bound is the room that Compress needs for n bytes of input.
func (c *Compressor) Bound(n int) int {
	if c.codec == None || n > c.Max {
		return 0
	}
	// Snappy's worst case covers zstd's, which adds 3 bytes per 128 KiB.
	return s2.MaxEncodedLen(n) + 64
}

// Compress writes the compressed form of raw into dst[:0], which must have
// Bound(len(raw)) bytes of capacity. It returns raw itself and None when that
// would not save more than an eighth.
func (c *Compressor) Compress(dst, raw []byte) ([]byte, Codec) {
	if c.codec == None || len(raw) > c.Max {
		return raw, None
	}
	if c.codec == Snappy {
		dst = s2.EncodeSnappy(dst[:0], raw)
	} else {
		dst = c.zstd.EncodeAll(raw, dst[:0])
	}
	if len(dst) >= len(raw)-len(raw)/8 {
		return raw, None
	}
	return dst, c.codec
}

// Zstd encoders hold a few MiB each; one per level serves the process. Their
// EncodeAll may be called concurrently.
var zstdEncoders struct {
	sync.Mutex
	byLevel map[zstd.EncoderLevel]*zstd.Encoder
}

func zstdEncoder(level zstd.EncoderLevel) (*zstd.Encoder, error) {
	e := &zstdEncoders
	e.Lock()
	defer e.Unlock()
	if enc := e.byLevel[level]; enc != nil {
		return enc, nil
	}
	// LevelDB needs the content size in the frame; a single segment always has it.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	if e.byLevel == nil {
		e.byLevel = map[zstd.EncoderLevel]*zstd.Encoder{}
	}
	e.byLevel[level] = enc
	return enc, nil
}

// zstdDecoder writes only into the capacity it is given.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(1<<32))
})

// Decompress returns the contents of a block stored as p: p itself when it is
// stored raw, else decompressed into buf. Contents of more than limit bytes are
// refused before any memory is taken for them.
func Decompress(buf *Buffer, p []byte, c Codec, limit int64) ([]byte, error) {
	switch {
	case c == None:
		return p, nil
	case c == Snappy || c == Zstd && bytes.HasPrefix(p, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		n, err := UnpackedLen(p, c)
		if err != nil {
			return nil, err
		}
		if n > uint64(max(limit, 0)) {
			return nil, tooLong(n, limit)
		}
		dst, err := buf.Resize(int(n))
		if err != nil {
			return nil, err
		}
		return dst, Unpack(dst, p, c)
	case c == Zstd && len(p) >= 2 && p[0]&0x0f == 8 && (uint(p[0])<<8|uint(p[1]))%31 == 0:
		return decodeZlib(buf, p, limit)
	case c == Deflate:
		return decodeDeflate(buf, p, limit)
	}
	return nil, base.Corruptf("table block", "unknown codec %d", c)
}

func tooLong(n uint64, limit int64) error {
	return base.Corruptf("table block", "decompresses to %d bytes, allowed are %d", n, limit)
}

// UnpackedLen is the length that p, packed by Snappy or Zstd, has when it is unpacked, as p says.
func UnpackedLen(p []byte, c Codec) (uint64, error) {
	if c == Snappy {
		n, err := s2.DecodedLen(p)
		if err != nil {
			return 0, base.Corruptf("table block", "snappy: %v", err)
		}
		// Three bytes of input give at most 64 of output in snappy; its extension
		// s2 has longer copies, which no table holds.
		if uint64(n) > 24*uint64(len(p))+64 {
			return 0, base.Corruptf("table block", "snappy: %d bytes cannot decompress to %d",
				len(p), n)
		}
		return uint64(n), nil
	}
	var h zstd.Header
	if err := h.Decode(p); err != nil {
		return 0, base.Corruptf("table block", "zstd: %v", err)
	}
	if !h.HasFCS {
		return 0, base.Corruptf("table block", "zstd: frame without its content's size")
	}
	return h.FrameContentSize, nil
}

// Unpack unpacks p, packed by Snappy or Zstd, to dst, which has its UnpackedLen.
func Unpack(dst, p []byte, c Codec) error {
	var out []byte
	var err error
	if c == Zstd {
		var d *zstd.Decoder
		if d, err = zstdDecoder(); err == nil {
			out, err = d.DecodeAll(p, dst[:0:len(dst)])
		}
	} else if n, _ := s2.DecodedLen(p); n == len(dst) { // else into memory of its own
		out, err = s2.Decode(dst, p)
	}
	if err != nil || len(out) != len(dst) {
		return base.Corruptf("table block", "codec %d: %d bytes instead of %d: %v", c, len(out),
			len(dst), err)
	}
	return nil
}

// inflaters are readers kept for reuse; both kinds have tens of KiB of state.
var (
	zlibReaders    sync.Pool
	deflateReaders sync.Pool
)

func decodeZlib(buf *Buffer, p []byte, limit int64) ([]byte, error) {
	r, _ := zlibReaders.Get().(io.ReadCloser)
	var err error
	if r == nil {
		r, err = zlib.NewReader(bytes.NewReader(p))
	} else {
		err = r.(zlib.Resetter).Reset(bytes.NewReader(p), nil)
	}
	if err != nil {
		return nil, base.Corruptf("table block", "zlib: %v", err)
	}
	out, err := inflate(buf, r, len(p), limit)
	zlibReaders.Put(r)
	return out, err
}

func decodeDeflate(buf *Buffer, p []byte, limit int64) ([]byte, error) {
	r, _ := deflateReaders.Get().(io.ReadCloser)
	if r == nil {
		r = flate.NewReader(bytes.NewReader(p))
	} else if err := r.(flate.Resetter).Reset(bytes.NewReader(p), nil); err != nil {
		return nil, err
	}
	out, err := inflate(buf, r, len(p), limit)
	deflateReaders.Put(r)
	return out, err
}

// inflate reads r to its end. These streams do not declare their size, so buf
// grows as they are read.
func inflate(buf *Buffer, r io.Reader, packed int, limit int64) ([]byte, error) {
	buf.Truncate(0)
	want := min(4*packed, 1<<20)
	for {
		if err := buf.Reserve(want); err != nil {
			return nil, err
		}
		b := buf.Bytes()
		n, err := r.Read(b[len(b) : len(b)+want])
		b = b[:len(b)+n]
		buf.Set(b)
		if int64(len(b)) > limit {
			return nil, tooLong(uint64(len(b)), limit)
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, base.Corruptf("table block", "deflate: %v", err)
		}
		want = min(max(len(b), 4096), 1<<20)
	}
}
