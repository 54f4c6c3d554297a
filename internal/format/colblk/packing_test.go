package colblk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/testkit/model"
)

// dataSets are values with the packing that suits them.
func dataSets() []struct {
	name string
	next func(rng *rand.Rand) []byte
	want Packing
} {
	words := bytes.Fields([]byte("river stone meadow lantern harvest copper winter garden market " +
		"thunder silver village " +
		"candle orchard feather harbor whisper mountain journey velvet island shadow morning " +
		"castle bridge"))
	return []struct {
		name string
		next func(rng *rand.Rand) []byte
		want Packing
	}{
		{"random", func(rng *rand.Rand) []byte {
			v := make([]byte, 100)
			for i := range v {
				v[i] = byte(rng.Uint32())
			}
			return v
		}, PackNone},
		{"repeats in itself", func(rng *rand.Rand) []byte {
			return bytes.Repeat(fmt.Appendf(nil, "%020d", rng.Uint64()), 5)
		}, PackValues},
		{"text", func(rng *rand.Rand) (v []byte) {
			for range 12 {
				v = append(append(v, words[rng.IntN(len(words))]...), ' ')
			}
			return v
		}, PackHeap},
		{"long text", func(rng *rand.Rand) (v []byte) {
			for range 3000 {
				v = append(append(v, words[rng.IntN(len(words))]...), ' ')
			}
			return v
		}, PackValues},
	}
}

// TestPackAuto writes values of one kind, then of another, and wants the packing that suits
// the kind; every entry comes back.
func TestPackAuto(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var w Writer
	defer w.Free()
	var buf, heap block.Buffer
	defer buf.Free()
	defer heap.Free()
	if err := w.Reset(Options{Comparer: base.Bytewise, Packing: PackAuto, Codec: base.CodecSnappy,
		MaxUnpacked: testLimit}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for round := range 3 {
		for _, set := range dataSets() {
			var es, got []model.Entry
			packed := round == 1 // values come as a compaction has them
			for blocks := 0; blocks < 8*sampleEvery; {
				e := model.Entry{Key: fmt.Appendf(nil, "%08d", n), Value: set.next(rng),
					Trailer: base.MakeTrailer(base.SeqNum(n), base.KindSet)}
				n++
				es = append(es, e)
				codec, v := base.CodecRaw, e.Value
				var table shortTable
				if p := make([]byte, len(v)); packed && len(v) <= maxShort {
					if m := table.packShort(p, v); m > 0 {
						var l [maxLenBytes]byte
						codec, v = base.CodecShort, append(l[:putLen(l[:], uint64(len(v)))],
							p[:m]...)
					}
				}
				if err := w.Add(e.Key, e.Trailer, codec, v); err != nil {
					t.Fatal(err)
				}
				if w.Fits(4096) || w.Len() == 1 {
					continue
				}
				blocks++
				got = appendEntries(t, got, finish(t, &w, w.Len()-1), &buf, &heap)
			}
			if w.Packing() != set.want {
				t.Errorf("%s: packing %d, want %d", set.name, w.Packing(), set.want)
			}
			got = appendEntries(t, got, finish(t, &w, w.Len()), &buf, &heap)
			compare(t, es, got)
		}
	}
}

// TestPackedByAnotherCodec adds values that other tables have packed: values in the Writer's own
// codec stay as they are; the others are packed anew, or kept where the Writer packs none.
func TestPackedByAnotherCodec(t *testing.T) {
	var buf, heap block.Buffer
	defer buf.Free()
	defer heap.Free()
	value := bytes.Repeat([]byte("a value of some length; "), 100)
	pack := map[base.Codec][]byte{base.CodecRaw: value}
	for _, codec := range []base.Codec{base.CodecSnappy, base.CodecZstd} {
		c, err := block.NewCompressor(block.Codec(codec), 1)
		if err != nil {
			t.Fatal(err)
		}
		p, got := c.Compress(make([]byte, c.Bound(len(value))), value)
		if base.Codec(got) != codec {
			t.Fatalf("codec %d", got)
		}
		pack[codec] = bytes.Clone(p)
	}
	for _, o := range []struct {
		packing     Packing
		codec, want base.Codec
	}{{PackValues, base.CodecSnappy, base.CodecSnappy}, {PackValues, base.CodecZstd,
		base.CodecZstd}, {PackNone, base.CodecSnappy, base.CodecRaw}} {
		var w Writer
		if err := w.Reset(Options{Comparer: base.Bytewise, Packing: o.packing, Codec: o.codec,
			Level: 1, MaxUnpacked: testLimit}); err != nil {
			t.Fatal(err)
		}
		for n, codec := range []base.Codec{base.CodecRaw, base.CodecSnappy, base.CodecZstd} {
			if err := w.Add([]byte{byte(n)}, base.MakeTrailer(1, base.KindSet), codec,
				pack[codec]); err != nil {
				t.Fatal(err)
			}
		}
		v, err := Open(finish(t, &w, 3), base.Bytewise)
		if err != nil {
			t.Fatal(err)
		}
		var e base.Chunk
		if err := v.Chunk(&e, nil, testLimit, &buf, &heap); err != nil {
			t.Fatal(err)
		}
		for i := range e.Len() {
			if got, err := AppendUnpacked(nil, e.Value(i), e.Codec(i), nil,
				testLimit); e.Codec(i) != o.want || err != nil || !bytes.Equal(got, value) {
				t.Errorf("%+v: value %d has codec %d, %v", o, i, e.Codec(i), err)
			}
		}
		w.Free()
	}
}

func finish(t *testing.T, w *Writer, n int) []byte {
	b, err := w.Finish(nil, n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func appendEntries(t *testing.T, es []model.Entry, b []byte, buf,
	heap *block.Buffer) []model.Entry {
	t.Helper()
	v, err := Open(b, base.Bytewise)
	if err != nil {
		t.Fatal(err)
	}
	var e base.Chunk
	if err := v.Chunk(&e, nil, testLimit, buf, heap); err != nil {
		t.Fatal(err)
	}
	for i := range e.Len() {
		val, err := AppendUnpacked([]byte{}, e.Value(i), e.Codec(i), nil, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, model.Entry{Key: bytes.Clone(e.Key(i)), Value: val, Trailer: e.Trailers[i]})
	}
	return es
}

// TestNoAllocations: once buffers have grown, nothing is allocated. The compressor of heaps has a
// pool, which a collection may empty.
func TestNoAllocations(t *testing.T) {
	es := newBenchEntries(true)
	for _, o := range packings[:3] {
		w := benchWriter(t, o)
		dst := aligned(1 << 16)
		var p []byte
		write := func() {
			for range 300 {
				e := es.entry()
				if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
					t.Fatal(err)
				}
				if !w.Fits(benchBlock) {
					var err error
					if p, err = w.Finish(dst[:0], w.Len()-1); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if n := testing.AllocsPerRun(20, write); n != 0 && o.Packing != PackHeap {
			t.Errorf("packing %d: writing allocates %v times", o.Packing, n)
		}
		var buf, heap block.Buffer
		var e base.Chunk
		mem, value := aligned(1<<16), make([]byte, 0, 256)
		read := func() {
			v, err := Open(p, base.Bytewise)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Chunk(&e, nil, testLimit, &buf, &heap); err != nil {
				t.Fatal(err)
			}
			i := v.Get(base.Bytewise, base.MakeLookup(base.Bytewise, e.Key(3), base.MaxSeqNum))
			if value, err = v.AppendValue(value[:0], i, nil, testLimit, &heap); err != nil ||
				i != 3 {
				t.Fatal(i, err)
			}
			s, err := v.Measure(testLimit)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.BuildView(mem, s, base.Bytewise, block.PointLookup, nil,
				&heap); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(20, read); n != 0 {
			t.Errorf("packing %d: reading allocates %v times", o.Packing, n)
		}
		buf.Free()
		heap.Free()
	}
}
