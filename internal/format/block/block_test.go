package block

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/golang/snappy"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
)

var orders = []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.LengthFirst, model.Fold}

func rowsOf(t testing.TB, es []model.Entry, interval int) []byte {
	t.Helper()
	b := RowBuilder{Interval: interval}
	defer b.Free()
	for _, e := range es {
		if err := b.Add(e.Key, e.Trailer, e.Value); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(rows)
}

func aligned(n int) []byte {
	b, err := offheap.Alloc(max(n, 8))
	if err != nil {
		panic(err)
	}
	return b
}

func viewOf(rows []byte, c *base.Comparer, cols Columns) (View, []byte, error) {
	s, err := Measure(rows, DefaultMaxDecoded)
	if err != nil {
		return View{}, nil, err
	}
	mem := aligned(s.ViewSize(cols))
	v, err := BuildView(mem, rows, s, c, cols)
	return v, mem, err
}

func randomEntries(rng *rand.Rand, c *base.Comparer, n int) []model.Entry {
	es := make([]model.Entry, n)
	prefix := []string{"", "k", "a-long-common-prefix/"}[rng.IntN(3)]
	for i := range es {
		tail := make([]byte, rng.IntN(14))
		for j := range tail {
			tail[j] = "\x00\x01aAbB\xfe\xff"[rng.IntN(8)]
		}
		es[i] = model.Entry{
			Key:     append([]byte(prefix), tail...),
			Value:   []byte(fmt.Sprint(rng.Int())[:rng.IntN(12)]),
			Trailer: base.MakeTrailer(base.SeqNum(rng.IntN(600)), base.Kind(rng.IntN(2))),
		}
	}
	return model.SortUnique(c, es)
}

func TestViewHoldsRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 400 {
		c := orders[round%len(orders)]
		es := randomEntries(rng, c, 1+rng.IntN(60))
		rows := rowsOf(t, es, 1+rng.IntN(17))
		v, mem, err := viewOf(rows, c, Columns(round/4%4))
		if err != nil {
			t.Fatal(err)
		}
		var got []model.Entry
		var e base.Chunk
		v.Chunk(&e)
		plain, maxSeq := true, base.SeqNum(0)
		for i := range e.Len() {
			got = append(got,
				model.Entry{Key: bytes.Clone(e.Key(i)), Value: bytes.Clone(e.Value(i)),
					Trailer: e.Trailers[i]})
			plain = plain && es[i].Trailer.Kind() == base.KindSet &&
				(i == 0 || c.Cmp(es[i].Key, es[i-1].Key) != 0)
			maxSeq = max(maxSeq, es[i].Trailer.Seq())
		}
		if d := cmp.Diff(es, got); d != "" {
			t.Fatal(d)
		}
		if e.AllLiveSets != plain || e.MaxSeq != maxSeq {
			t.Fatalf("plain %v, max seq %d, want %v, %d", e.AllLiveSets, e.MaxSeq, plain, maxSeq)
		}
		checkSearches(t, rng, c, es, v)
		offheap.Free(mem)
	}
}

// checkSearches compares Get, SeekGE and SeekLT with linear searches.
func checkSearches(t *testing.T, rng *rand.Rand, c *base.Comparer, es []model.Entry, v View) {
	t.Helper()
	for range 80 {
		key := bytes.Clone(es[rng.IntN(len(es))].Key)
		switch rng.IntN(4) {
		case 0:
			key = append(key, "\x00ab\xff"[rng.IntN(4)])
		case 1:
			key = key[:rng.IntN(len(key)+1)]
		}
		seq := base.SeqNum(rng.IntN(700))
		target := base.MakeTrailer(seq, base.KindForSeek)
		ge := model.Search(c, es, key, target)
		if got := v.SeekGE(c, key, target); got != ge {
			t.Fatalf("%s: SeekGE(%q, %d) = %d, want %d", c.Name, key, seq, got, ge)
		}
		if got := v.SeekLT(c, key, target); got != ge-1 {
			t.Fatalf("%s: SeekLT(%q, %d) = %d, want %d", c.Name, key, seq, got, ge-1)
		}
		want := -1
		if ge < len(es) && c.Cmp(es[ge].Key, key) == 0 {
			want = ge
		}
		if got := v.Get(c, base.MakeLookup(c, key, seq)); got != want {
			t.Fatalf("%s: Get(%q, %d) = %d, want %d", c.Name, key, seq, got, want)
		}
	}
}

func TestRowsByteForByte(t *testing.T) {
	// Worked by hand: "deck"@1="v1", "dock"@2 deleted, restart, "duck"@3="v3".
	es := []model.Entry{model.Set("deck", 1, "v1"), model.Tombstone("dock", 2),
		model.Set("duck", 3, "v3")}
	want := "\x00\x0c\x02deck\x01\x01\x00\x00\x00\x00\x00\x00v1" +
		"\x01\x0b\x00ock\x00\x02\x00\x00\x00\x00\x00\x00" +
		"\x00\x0c\x02duck\x01\x03\x00\x00\x00\x00\x00\x00v3" +
		"\x00\x00\x00\x00\x1f\x00\x00\x00\x02\x00\x00\x00"
	if got := string(rowsOf(t, es, 2)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := string(rowsOf(t, nil, 2)); got != "\x00\x00\x00\x00\x01\x00\x00\x00" {
		t.Errorf("empty block is %q", got)
	}
}

// Versions of one key share bytes of their trailers too.
func TestSharedTrailers(t *testing.T) {
	var es []model.Entry
	for i := range 300 {
		es = append(es, model.Set("k", 1<<40+base.SeqNum(300-i), "v"))
	}
	for _, k := range []string{"k\x01", "k\x01\x05", "k\x01\x05\x00\x00\x00\x00\x01\x00\x00",
		"k\x02"} {
		es = append(es, model.Set(k, 1<<40+5, "v"))
	}
	rows := rowsOf(t, es, 16)
	v, _, err := viewOf(rows, base.Bytewise, PointLookup)
	if err != nil {
		t.Fatal(err)
	}
	checkSearchRows(t, base.Bytewise, rows, v, []byte("k\x01\x05\x00"))
	for i, e := range es {
		if !bytes.Equal(v.Key(i), e.Key) || v.Trailer(i) != e.Trailer {
			t.Fatalf("entry %d is %q %d, want %q %d", i, v.Key(i), v.Trailer(i).Seq(), e.Key,
				e.Trailer.Seq())
		}
	}
}

func TestDamagedRows(t *testing.T) {
	row := func(shared, unshared, vlen byte, rest string) string {
		return string([]byte{shared, unshared, vlen}) + rest
	}
	const tr1, tr2 = "\x01\x01\x00\x00\x00\x00\x00\x00", "\x01\x02\x00\x00\x00\x00\x00\x00"
	restarts := func(offs ...uint32) string {
		var b []byte
		for _, o := range offs {
			b = binary.LittleEndian.AppendUint32(b, o)
		}
		return string(binary.LittleEndian.AppendUint32(b, uint32(len(offs))))
	}
	good := row(0, 9, 1, "a"+tr1+"v")
	damaged := []struct{ name, rows, reason string }{
		{"empty", "", "too few"},
		{"no restart point", good + "\x00\x00\x00\x00", "0 restart points"},
		{"restart count past the start", good + "\x00\x00\x00\x00\xff\xff\xff\xff",
			"restart points in a block"},
		{"restart not at an entry", good + restarts(0, 5), "not the start"},
		{"first restart is not 0", good + restarts(13), "not the start"},
		{"restarts descend", good + row(0, 9, 1, "b"+tr1+"v") + restarts(0, 0), "do not ascend"},
		{"restart that shares", good + row(1, 9, 1, "b"+tr1+"v") + restarts(0, 13),
			"restart point shares"},
		{"first entry shares", row(1, 9, 1, "a"+tr1+"v") + restarts(0),
			"shares 1 bytes with a key of 0"},
		{"shares too much", good + row(10, 9, 1, "a"+tr1+"v") + restarts(0),
			"shares 10 bytes with a key of 9"},
		{"value too long", row(0, 9, 2, "a"+tr1+"v") + restarts(0), "outside"},
		{"key too short", row(0, 7, 0, "1234567") + restarts(0), "too short"},
		{"varint too long", "\xff\xff\xff\xff\xff\x01\x00\x00" + restarts(0), "malformed"},
		{"same entry twice", good + row(0, 9, 1, "a"+tr1+"v") + restarts(0), "do not ascend"},
		{"older version first", good + row(0, 9, 1, "a"+tr2+"v") + restarts(0), "do not ascend"},
		{"keys descend", row(0, 9, 0, "b"+tr1) + row(0, 9, 0, "a"+tr1) + restarts(0),
			"do not ascend"},
	}
	for kind := int(base.KindSet) + 1; kind < 256; kind++ {
		d := damaged[0]
		d.name, d.reason = "unknown kind", fmt.Sprintf("unknown kind %d", kind)
		d.rows = row(0, 9, 0, "a"+string([]byte{byte(kind)})+tr1[1:]) + restarts(0)
		damaged = append(damaged, d)
	}
	for _, tc := range damaged {
		_, _, err := viewOf([]byte(tc.rows), base.Bytewise, PointLookup)
		if !errors.Is(err, base.ErrCorruption) ||
			!bytes.Contains([]byte(err.Error()), []byte(tc.reason)) {
			t.Errorf("%s: %v, want a corruption with %q", tc.name, err, tc.reason)
		}
		var buf Buffer
		if _, got := SearchRows([]byte(tc.rows), 1<<20, base.Bytewise,
			base.MakeLookup(base.Bytewise, []byte("a"), 1), &buf); got == nil ||
			got.Error() != err.Error() {
			t.Errorf("%s: a search says %v, the view %v", tc.name, got, err)
		}
		buf.Free()
	}
}

// A few bytes that share the whole of a long key before them expand without
// bound unless stopped.
func TestExpansionIsCapped(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 1<<20)
	rows := []byte{0}
	rows = binary.AppendUvarint(rows, uint64(len(long)+8))
	rows = append(append(rows, 0), long...)
	rows = append(rows, "\x01\xff\xff\xff\xff\xff\xff\xff"...)
	for i := range 255 {
		rows = binary.AppendUvarint(rows, uint64(len(long)+7))
		rows = append(rows, 1, 0, byte(254-i))
	}
	rows = append(rows, 0, 0, 0, 0, 1, 0, 0, 0)
	_, err := Measure(rows, 8<<20)
	if !errors.Is(err, base.ErrCorruption) {
		t.Fatal(err)
	}
	var buf Buffer
	defer buf.Free()
	if _, got := SearchRows(rows, 8<<20, base.Bytewise, base.MakeLookup(base.Bytewise, long, 1),
		&buf); got == nil || got.Error() != err.Error() {
		t.Fatalf("a search says %v, want %v", got, err)
	}
}

func TestHandles(t *testing.T) {
	for _, h := range []Handle{{}, {1, 2}, {1 << 40, 1 << 33}, {1<<62 - 1, 1<<62 - 1}} {
		b := AppendHandle(nil, h)
		if got, n := DecodeHandle(append(b, 7)); got != h || n != len(b) {
			t.Errorf("%v came back as %v", h, got)
		}
		for i := range b {
			if _, n := DecodeHandle(b[:i]); n != 0 {
				t.Errorf("%v: accepted %d of %d bytes", h, i, len(b))
			}
		}
	}
	if _, n := DecodeHandle([]byte{0x81, 0x00, 0x01}); n != 0 {
		t.Error("accepted an overlong number")
	}
	if _, n := DecodeHandle(binary.AppendUvarint(binary.AppendUvarint(nil, 1<<63), 1)); n != 0 {
		t.Error("accepted an offset past the largest file")
	}
}

func TestSealAndOpen(t *testing.T) {
	tr := Trailer([]byte("contents"), Snappy)
	b := append([]byte("contents"), tr[:]...)
	p, c, err := Verify(b)
	if err != nil || string(p) != "contents" || c != Snappy {
		t.Fatal(p, c, err)
	}
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, _, err := Verify(b); !errors.Is(err, base.ErrCorruption) {
				t.Fatalf("flipped bit %d of byte %d: %v", bit, i, err)
			}
			b[i] ^= 1 << bit
		}
	}
}

func compressible(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+100)
	for len(b) < n {
		half := make([]byte, 50)
		for i := range half {
			half[i] = byte(' ' + rng.IntN(95))
		}
		b = append(append(b, half...), half...)
	}
	return b[:n]
}

func TestCodecs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 100, 255, 256, 4096, 70000, 3 << 20} {
		raw := compressible(rng, n)
		var zl, df bytes.Buffer
		zw := zlib.NewWriter(&zl)
		zw.Write(raw)
		zw.Close()
		fw, _ := flate.NewWriter(&df, 6)
		fw.Write(raw)
		fw.Close()
		ze, _ := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
		stored := map[string]struct {
			p []byte
			c Codec
		}{
			"none":    {raw, None},
			"snappy":  {snappy.Encode(nil, raw), Snappy},
			"zstd":    {ze.EncodeAll(raw, nil), Zstd},
			"zlib":    {zl.Bytes(), Zstd},
			"deflate": {df.Bytes(), Deflate},
		}
		for name, s := range stored {
			var buf Buffer
			got, err := Decompress(&buf, s.p, s.c, int64(n))
			if err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
			if s.c != None {
				if _, err := Decompress(&buf, s.p, s.c,
					int64(n-1)); !errors.Is(err, base.ErrCorruption) {
					t.Errorf("%s of %d bytes with a lower cap: %v", name, n, err)
				}
				if _, err := Decompress(&buf, s.p[:len(s.p)/2], s.c,
					1<<30); !errors.Is(err, base.ErrCorruption) {
					t.Errorf("half of %s of %d bytes: %v", name, n, err)
				}
			}
			buf.Free()
		}
	}
	var buf Buffer
	for _, c := range []Codec{2, 3, 5, 255} {
		if _, err := Decompress(&buf, []byte("whatever"), c,
			1<<20); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("codec %d: %v", c, err)
		}
	}
}

func TestCompressor(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for _, c := range []Codec{None, Snappy, Zstd} {
		z, err := NewCompressor(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range [][]byte{nil, []byte("a"), compressible(rng, 200),
			compressible(rng, 5000), noise} {
			p, got := z.Compress(make([]byte, 0, z.Bound(len(raw))), raw)
			if got == None {
				if !bytes.Equal(p, raw) {
					t.Fatal("stored raw, but differs")
				}
				if c != None && len(raw) == 5000 && &raw[0] != &noise[0] {
					t.Errorf("codec %d did not pack compressible data", c)
				}
				continue
			}
			if len(p) >= len(raw)-len(raw)/8 {
				t.Errorf("codec %d saves too little: %d of %d", c, len(p), len(raw))
			}
			var buf Buffer
			back, err := Decompress(&buf, p, got, 1<<20)
			if err != nil || !bytes.Equal(back, raw) {
				t.Errorf("codec %d: %v", c, err)
			}
			if got == Snappy {
				if ref, err := snappy.Decode(nil, p); err != nil || !bytes.Equal(ref, raw) {
					t.Errorf("the reference decoder: %v", err)
				}
			}
		}
	}
	if _, err := NewCompressor(Deflate, 0); !errors.Is(err, base.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestEachRow(t *testing.T) {
	b := RowBuilder{Interval: 16}
	defer b.Free()
	for _, k := range []string{"filter.a", "filter.b", "loam"} {
		if err := b.AddRaw([]byte(k), []byte("="+k)); err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := b.Finish()
	var got []string
	err := EachRow(rows, func(k, v []byte) error {
		got = append(got, string(k)+string(v))
		return nil
	})
	if d := cmp.Diff([]string{"filter.a=filter.a", "filter.b=filter.b", "loam=loam"},
		got); d != "" || err != nil {
		t.Fatal(d, err)
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	es := randomEntries(rng, base.Bytewise, 50)
	rows := rowsOf(t, es, 16)
	packed := snappy.Encode(nil, rows)
	mem := aligned(1 << 20)
	var buf Buffer
	key := bytes.Clone(es[len(es)/2].Key)
	var e base.Chunk
	if n := testing.AllocsPerRun(100, func() {
		raw, err := Decompress(&buf, packed, Snappy, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := Measure(raw, 1<<20)
		if _, err := BuildView(mem, raw, s, base.Bytewise, PointLookup); err != nil {
			t.Fatal(err)
		}
		v := OpenView(mem)
		v.Get(base.Bytewise, base.MakeLookup(base.Bytewise, key, 1000))
		v.SeekGE(base.Bytewise, key, base.MaxTrailer)
		v.Chunk(&e)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	buf.Free()
}
