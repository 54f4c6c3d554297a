package colblk

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// TestLengthsThatWrap: a block of nearly 4 GiB says lengths of which the sum wraps. It is refused
// before memory is taken for the little that is left of the sum.
func TestLengthsThatWrap(t *testing.T) {
	b, err := offheap.Alloc(fixedLen + minRest)
	if err != nil {
		t.Fatal(err)
	}
	defer offheap.Free(b)
	const n = 1<<31 + 1<<24
	each := uint64(math.MaxUint64/n + 1) // bytes of an entry, its columns in a view included
	prefix := (each - 25) / 2
	binary.LittleEndian.PutUint32(b[hdrCount:], n)
	binary.LittleEndian.PutUint32(b[hdrPrefix:], uint32(prefix))
	binary.LittleEndian.PutUint32(b[hdrRawBase:], uint32(each-25-prefix))
	b[hdrFlags], b[hdrCodec] = byte(forward)<<orderShift, byte(base.CodecZstdDict)
	v := Reopen(b)
	if size := block.ViewSize(n, v.keysLen()+v.valuesLen(), block.PointLookup); size > 1<<32 {
		t.Fatalf("the sum is %d", size)
	}
	if s, err := v.Measure(math.MaxUint32); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("a view of %d bytes, %v", s.ViewSize(block.PointLookup), err)
	}
	var e base.Chunk
	var buf, scratch block.Buffer
	defer buf.Free()
	defer scratch.Free()
	if err := v.Chunk(&e, nil, math.MaxUint32, &buf, &scratch); !errors.Is(err,
		base.ErrCorruption) {
		t.Error("a chunk: ", err)
	}
}
