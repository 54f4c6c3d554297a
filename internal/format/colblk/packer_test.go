package colblk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestPacker: values are packed ahead of a Writer where it would pack them one by one and without a
// dictionary, and the blocks are the same as if the Writer had packed them.
func TestPacker(t *testing.T) {
	auto := Options{Comparer: base.Bytewise, Packing: PackAuto, Codec: base.CodecSnappy, Dict: true,
		MaxUnpacked: testLimit}
	none := auto
	none.Packing = PackNone
	sets := dataSets()
	for _, c := range []struct {
		name string
		o    Options
		next func(rng *rand.Rand) []byte
		want bool
	}{
		{"random", auto, sets[0].next, false},
		{"repeats in itself", auto, sets[1].next, true},
		{"not compressed", none, sets[1].next, false},
		{"text", auto, sets[2].next, false},
		{"records", auto, func(rng *rand.Rand) []byte {
			return append(record(rng), bytes.Repeat(fmt.Appendf(nil, "%020d", rng.Uint64()), 3)...)
		}, false},
		{"of mixed lengths", auto, func(rng *rand.Rand) []byte {
			return bytes.Repeat(fmt.Appendf(nil, "%020d", rng.Uint64()),
				1+rng.IntN(60))[rng.IntN(20):]
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, 9))
			var blocks [][][]byte
			for range 2 * SampleBlocks {
				var values [][]byte
				for n := 0; n < 4096; n += len(values[len(values)-1]) {
					values = append(values, c.next(rng))
				}
				blocks = append(blocks, values)
			}
			var p Packer
			if err := p.Sample(c.o, blocks[:SampleBlocks]); err != nil {
				t.Fatal(err)
			}
			plain, ahead := benchWriter(t, c.o), benchWriter(t, c.o)
			packed := 0
			for _, values := range blocks {
				for i, v := range values {
					key := fmt.Appendf(nil, "%08d", i)
					if err := plain.Add(key, base.MakeTrailer(1, base.KindSet), base.CodecRaw,
						v); err != nil {
						t.Fatal(err)
					}
					got, codec := p.Pack(v)
					if codec != base.CodecRaw {
						packed++
					}
					if err := ahead.Add(key, base.MakeTrailer(1, base.KindSet), codec,
						got); err != nil {
						t.Fatal(err)
					}
				}
				if a, b := finish(t, plain, plain.Len()), finish(t, ahead,
					ahead.Len()); !bytes.Equal(a, b) {
					t.Fatalf("blocks of %d and %d bytes differ", len(a), len(b))
				}
			}
			if (packed > 0) != c.want {
				t.Errorf("%d values were packed, want some: %v", packed, c.want)
			}
		})
	}
	var p Packer
	if got, codec := p.Pack([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")); codec != base.CodecRaw ||
		len(got) != 31 {
		t.Errorf("a value is packed without a sample")
	}
}
