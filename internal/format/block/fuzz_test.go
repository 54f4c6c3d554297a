package block

import (
	"bytes"
	"errors"
	"testing"

	"github.com/golang/snappy"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
)

// FuzzRows: any bytes are refused as a Corruption or make a view whose entries
// ascend and that answers for each of them. A search of the rows finds the same, or
// refuses them as well.
func FuzzRows(f *testing.F) {
	f.Add(rowsOf(f, []model.Entry{model.Set("deck", 1, "v1"), model.Tombstone("dock", 2),
		model.Set("duck", 3, "v3")}, 2), []byte("dock"))
	f.Add(rowsOf(f, []model.Entry{model.Set("k", 9, "a"), model.Set("k", 8, "b"),
		model.Set("k\x01", 8, "b")}, 16), []byte("k"))
	f.Fuzz(func(t *testing.T, rows, key []byte) {
		for _, c := range orders {
			s, err := Measure(rows, 1<<20)
			if err != nil {
				fuzzError(t, err)
				checkRefused(t, c, rows, key)
				continue
			}
			mem := aligned(s.ViewSize(PointLookup))
			if len(mem) > 1<<20+64 {
				t.Fatalf("view of %d bytes", len(mem))
			}
			v, err := BuildView(mem, rows, s, c, PointLookup)
			fuzzError(t, err)
			if err == nil {
				fuzzView(t, c, v, key)
				checkSearchRows(t, c, rows, v, key)
			} else {
				checkRefused(t, c, rows, key)
			}
			offheap.Free(mem)
		}
	})
}

func fuzzView(t *testing.T, c *base.Comparer, v View, key []byte) {
	for i := range v.Len() {
		k, tr := v.Key(i), v.Trailer(i)
		if i > 0 && c.CompareInternal(v.Key(i-1), v.Trailer(i-1), k, tr) >= 0 {
			t.Fatalf("entry %d does not ascend", i)
		}
		if at := v.SeekGE(c, k, tr); at != i {
			t.Fatalf("entry %d is found at %d", i, at)
		}
		if at := v.Get(c, base.MakeLookup(c, k, tr.Seq())); at < 0 || c.Cmp(v.Key(at), k) != 0 {
			t.Fatalf("entry %d is not got (%d)", i, at)
		}
	}
	if at := v.Get(c, base.MakeLookup(c, key, base.MaxSeqNum)); at >= 0 &&
		c.Cmp(v.Key(at), key) != 0 {
		t.Fatal("another key's entry")
	}
}

// FuzzCodecs: any stored bytes decompress within the limit or are refused as a
// Corruption; what the reference decoder of snappy takes, ours gives alike.
func FuzzCodecs(f *testing.F) {
	raw := bytes.Repeat([]byte("some text, "), 20)
	f.Add(snappy.Encode(nil, raw), byte(Snappy))
	z, _ := NewCompressor(Zstd, 1)
	p, _ := z.Compress(make([]byte, 0, z.Bound(len(raw))), raw)
	f.Add(p, byte(Zstd))
	f.Add([]byte("\x78\x9c\x4b\x04\x00\x00\x62\x00\x62"), byte(Zstd))
	f.Add([]byte("\x4b\x04\x00"), byte(Deflate))
	f.Fuzz(func(t *testing.T, p []byte, codec byte) {
		const limit = 1 << 18
		var buf Buffer
		defer buf.Free()
		out, err := Decompress(&buf, p, Codec(codec), limit)
		fuzzError(t, err)
		if err == nil && len(out) > limit && Codec(codec) != None {
			t.Fatalf("%d bytes", len(out))
		}
		if Codec(codec) == Snappy && len(p) < 1<<16 {
			if n, err := snappy.DecodedLen(p); err != nil || n > limit {
				return
			}
			ref, refErr := snappy.Decode(nil, p)
			if refErr == nil && (err != nil || !bytes.Equal(ref, out)) {
				t.Fatalf("reference decodes %d bytes, we: %v", len(ref), err)
			}
		}
	})
}

func fuzzError(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, base.ErrCorruption) {
		t.Fatal(err)
	}
}
