package colblk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/testkit/model"
)

// testDict has parts that the values of shapes repeat: runs of one byte.
func testDict(t testing.TB, withZstd bool) *dictPacker {
	content := make([]byte, 0, 2000)
	for i := range 250 {
		content = append(content, bytes.Repeat([]byte{byte(i)}, 8)...)
	}
	d, err := newDictPacker(content, withZstd, zstd.SpeedDefault)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// record is a small document: its fields' names and some of its words are those of other ones.
func record(rng *rand.Rand) []byte {
	names := []string{"Alice", "Bob", "Carol", "Dave", "Erin", "Frank", "Grace", "Heidi", "Ivan",
		"Judy"}
	name := names[rng.IntN(len(names))]
	return fmt.Appendf(nil,
		`{"id":%d,"name":"%s %s","email":"%s%d@example.com","active":%v,"balance":%d.%02d,`+
			`"created_at":"2024-%02d-%02dT10:00:00Z"}`,
		rng.Uint32(), name, names[rng.IntN(len(names))], name, rng.IntN(1000), rng.IntN(2) == 0,
		rng.IntN(10000), rng.IntN(100), 1+rng.IntN(12), 1+rng.IntN(28))
}

// written is the blocks of a table.
type written struct {
	entries []model.Entry
	blocks  [][]byte
	size    int
	dict    []byte
}

func writeBlocks(t *testing.T, o Options, blocks int, next func() []byte) (r written) {
	w := benchWriter(t, o)
	for len(r.blocks) < blocks {
		e := model.Entry{Key: fmt.Appendf(nil, "%08d", len(r.entries)), Value: next(),
			Trailer: base.MakeTrailer(1, base.KindSet)}
		r.entries = append(r.entries, e)
		if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
			t.Fatal(err)
		}
		if w.ValueBytes() > 4096 || len(r.entries)%40 == 0 {
			r.blocks = append(r.blocks, finish(t, w, w.Len()))
			r.size += len(r.blocks[len(r.blocks)-1])
		}
	}
	r.dict = bytes.Clone(w.Dict())
	return r
}

// TestDictionary writes small documents: a dictionary is made, it saves what it must, and every way
// to read a block gives the values back with it, and an error without.
func TestDictionary(t *testing.T) {
	for _, c := range []struct {
		name  string
		codec base.Codec
		used  base.Codec
		most  float64 // bytes, as a part of those without a dictionary
	}{
		{"short", base.CodecSnappy, base.CodecShortDict, 0.95},
		{"zstd", base.CodecZstd, base.CodecZstdDict, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			o := Options{Packing: PackAuto, Codec: c.codec}
			without := writeBlocks(t, o, 200, func() []byte { return record(rng) })
			rng = rand.New(rand.NewPCG(7, 7))
			o.Dict = true
			with := writeBlocks(t, o, 200, func() []byte { return record(rng) })
			if without.dict != nil || len(with.dict) < minDict || len(with.dict) > dictLen {
				t.Fatalf("dictionaries of %d and %d bytes", len(without.dict), len(with.dict))
			}
			per := func(w written) float64 {
				return float64(w.size+len(w.dict)) / float64(len(w.entries))
			}
			t.Logf("%.1f bytes an entry, %.1f without a dictionary", per(with), per(without))
			if per(with) > c.most*per(without) {
				t.Errorf("%.1f bytes an entry, %.1f without a dictionary", per(with), per(without))
			}
			dict, err := NewDict(with.dict)
			if err != nil {
				t.Fatal(err)
			}
			checkWritten(t, with, dict, c.used)
		})
	}
}

func checkWritten(t *testing.T, w written, dict *Dict, used base.Codec) {
	var buf, heap block.Buffer
	defer buf.Free()
	defer heap.Free()
	var got, viewed []model.Entry
	needed := 0
	for _, b := range w.blocks {
		v, err := Open(b, base.Bytewise)
		if err != nil {
			t.Fatal(err)
		}
		var e base.Chunk
		if err := v.Chunk(&e, dict, testLimit, &buf, &heap); err != nil {
			t.Fatal(err)
		}
		for i := range e.Len() {
			value, err := AppendUnpacked([]byte{}, e.Value(i), e.Codec(i), nil, testLimit)
			if err != nil || e.Codec(i).NeedsDict() {
				t.Fatal(e.Codec(i), err)
			}
			got = append(got, model.Entry{Key: bytes.Clone(e.Key(i)), Value: value,
				Trailer: e.Trailers[i]})
		}
		s, err := v.Measure(testLimit)
		if err != nil {
			t.Fatal(err)
		}
		view, err := v.BuildView(aligned(s.ViewSize(block.PointLookup)), s, base.Bytewise,
			block.PointLookup, dict, &heap)
		if err != nil {
			t.Fatal(err)
		}
		for i := range v.Len() {
			value, err := v.AppendValue(nil, i, dict, testLimit, &heap)
			if err != nil || !bytes.Equal(value, view.Value(i)) {
				t.Fatalf("entry %d: %q, its View has %q: %v", i, value, view.Value(i), err)
			}
			viewed = append(viewed, model.Entry{Key: view.Key(i), Value: value,
				Trailer: view.Trailer(i)})
		}
		if v.codec() == used {
			needed++
			_, err := v.AppendValue(nil, 0, nil, testLimit, &heap)
			if err2 := v.Chunk(&e, nil, testLimit, &buf,
				&heap); !errors.Is(err, base.ErrCorruption) ||
				!errors.Is(err2, base.ErrCorruption) {
				t.Fatal("without a dictionary:", err, err2)
			}
		}
	}
	compare(t, w.entries, got)
	compare(t, w.entries, viewed)
	if needed < len(w.blocks)*8/10 {
		t.Errorf("%d of %d blocks have codec %d", needed, len(w.blocks), used)
	}
}

// TestNoDictionary writes values that a dictionary does not shorten, few values, and long ones.
func TestNoDictionary(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	long := bytes.Repeat(record(rng), 8)
	values := newBenchEntries(false)
	for name, c := range map[string]struct {
		blocks int
		next   func() []byte
	}{
		"db_bench": {100, func() []byte { return bytes.Clone(values.entry().Value) }},
		"few":      {trainBlocks, func() []byte { return record(rng) }},
		"long":     {100, func() []byte { return long }},
	} {
		if w := writeBlocks(t, Options{Packing: PackAuto, Codec: base.CodecSnappy, Dict: true},
			c.blocks, c.next); w.dict != nil {
			t.Errorf("%s: a dictionary of %d bytes", name, len(w.dict))
		}
	}
}

// TestDictionaryLength: what no table has is refused.
func TestDictionaryLength(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true, MaxDict: true, MaxDict + 1: false} {
		if _, err := NewDict(make([]byte, n)); (err == nil) != ok || err != nil &&
			!errors.Is(err, base.ErrCorruption) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func BenchmarkDictionary(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 7))
	var content []byte
	for len(content) < dictLen-200 {
		content = append(content, record(rng)...)
	}
	d, err := newDictPacker(content, false, 0)
	if err != nil {
		b.Fatal(err)
	}
	value := record(rng)
	packed, out := make([]byte, len(value)), make([]byte, len(value)+wideCopy)
	n := d.packShort(packed, value)
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			d.packShort(packed, value)
		}
		b.ReportMetric(float64(n)/float64(len(value)), "ratio")
	})
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			unpackShort(out[:len(value)], packed[:n], d.dict.content, n)
		}
	})
}
