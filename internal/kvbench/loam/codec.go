package loam

import (
	"strconv"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/lsm"
)

// Codec returns what blocks are packed and checked with.
func (Driver) Codec(name string) (store.Codec, bool) {
	switch name {
	case "crc32c":
		return store.Codec{Encode: checksum}, true
	case "snappy":
		return codec(block.Snappy)
	case "zstd":
		return codec(block.Zstd)
	}
	return store.Codec{}, false
}

func checksum(dst, src []byte) []byte {
	c := base.CRC(src)
	return append(dst, byte(c), byte(c>>8), byte(c>>16), byte(c>>24))
}

// codec packs blocks as tables do: one that does not get smaller by an eighth
// stays as it is.
func codec(id block.Codec) (store.Codec, bool) {
	c, err := block.NewCompressor(id, zstdLevel())
	if err != nil {
		return store.Codec{}, false
	}
	var packedBy block.Codec // what the last Encode did
	var buf block.Buffer
	return store.Codec{
		Encode: func(dst, src []byte) []byte {
			if n := c.Bound(len(src)); cap(dst) < n {
				dst = make([]byte, 0, n)
			}
			var out []byte
			out, packedBy = c.Compress(dst[:0], src)
			return out
		},
		Decode: func(_, src []byte) ([]byte, error) {
			return block.Decompress(&buf, src, packedBy, block.DefaultMaxDecoded)
		},
		Close: buf.Free,
	}, true
}

// zstdLevel is the engine's default.
func zstdLevel() int {
	for _, d := range lsm.OptionDocs() {
		if d.Name == "zstd_level" {
			if n, err := strconv.Atoi(d.Default); err == nil {
				return n
			}
		}
	}
	return 0
}
