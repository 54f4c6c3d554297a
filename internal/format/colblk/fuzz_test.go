package colblk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/testkit/model"
)

// hostileLimit is the memory that a damaged block may take.
const hostileLimit = 1 << 20

// exerciser calls every method of blocks whose bytes may be anything.
type exerciser struct {
	guard             func([]byte) []byte
	view, chunk, heap block.Buffer
	key, last, value  []byte
	dict              *Dict
}

func newExerciser(t testing.TB) *exerciser {
	x := &exerciser{guard: newGuard(t, 1<<17), dict: testDict(t, false).dict}
	t.Cleanup(func() {
		x.view.Free()
		x.chunk.Free()
		x.heap.Free()
	})
	return x
}

// exercise opens b and reads all of it. It reports whether b is valid.
func (x *exerciser) exercise(t testing.TB, b []byte, c *base.Comparer, target []byte) bool {
	t.Helper()
	v, err := Open(x.guard(b), c)
	if err != nil {
		corruption(t, err)
		return false
	}
	ordered := v.CheckOrder(c)
	corruption(t, ordered)
	if v.Len() > len(b) || maxSeq(&v) > base.MaxSeqNum {
		t.Fatalf("%d entries in %d bytes, max seq %d", v.Len(), len(b), maxSeq(&v))
	}
	for i := range v.Len() {
		x.last, x.key = x.key, v.AppendKey(x.last[:0], i)
		if len(x.key) != v.KeyLen(i) {
			t.Fatalf("key %d has %d bytes, KeyLen says %d", i, len(x.key), v.KeyLen(i))
		}
		tr := v.Trailer(i)
		if i > 0 && ordered == nil && c.CompareInternal(x.last, v.Trailer(i-1), x.key, tr) >= 0 {
			t.Fatalf("%s: entry %d, %q, does not ascend after %q: nobody noticed", c.Name, i, x.key,
				x.last)
		}
		if x.value, err = v.AppendValue(x.value[:0], i, x.dict, hostileLimit, &x.heap); err != nil {
			corruption(t, err)
		} else if len(x.value) > hostileLimit {
			t.Fatalf("a value of %d bytes", len(x.value))
		}
		x.search(t, &v, c, x.key, tr)
	}
	x.search(t, &v, c, target, base.MaxTrailer)
	s, err := v.Measure(hostileLimit)
	corruption(t, err)
	if err == nil {
		x.buildView(t, &v, s, c)
	}
	var e base.Chunk
	err = v.Chunk(&e, x.dict, hostileLimit, &x.chunk, &x.heap)
	corruption(t, err)
	if err == nil {
		for i := range e.Len() {
			_, _, _ = e.Key(i), e.Value(i), e.Codec(i)
		}
	}
	return true
}

func (x *exerciser) search(t testing.TB, v *Block, c *base.Comparer, key []byte, tr base.Trailer) {
	if i := v.SeekGE(c, key, tr); i < 0 || i > v.Len() {
		t.Fatalf("SeekGE is %d of %d", i, v.Len())
	}
	if i := v.Get(c, base.MakeLookup(c, key, tr.Seq())); i < -1 || i >= v.Len() {
		t.Fatalf("Get is %d of %d", i, v.Len())
	}
}

func (x *exerciser) buildView(t testing.TB, v *Block, s Shape, c *base.Comparer) {
	for cols := range block.Columns(4) {
		mem, err := x.view.Resize(s.ViewSize(cols))
		if err != nil {
			t.Fatal(err)
		}
		if len(mem) > hostileLimit {
			t.Fatalf("a view of %d bytes", len(mem))
		}
		view, err := v.BuildView(mem, s, c, cols, x.dict, &x.heap)
		if err != nil {
			corruption(t, err)
			continue
		}
		if view.Len() != v.Len() {
			t.Fatalf("%d entries of %d", view.Len(), v.Len())
		}
		for i := range view.Len() {
			_, _ = view.Key(i), view.Value(i)
		}
	}
}

func corruption(t testing.TB, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, base.ErrCorruption) {
		t.Fatalf("not a corruption: %v", err)
	}
}

// smallBlocks are blocks of all kinds of columns.
func smallBlocks(t testing.TB) (blocks [][]byte, cs []*base.Comparer) {
	rng := rand.New(rand.NewPCG(4, 4))
	for round := range 40 {
		c := orders[round%len(orders)]
		s := randomShape(rng)
		s.values = [][]int{{0}, {7}, {60}, {30, 40}, {0, 700}}[rng.IntN(5)]
		o := packings[rng.IntN(len(packings))]
		o.Comparer = c
		var w Writer
		if err := w.Reset(o); err != nil {
			t.Fatal(err)
		}
		if round%3 == 0 && o.Packing != PackNone {
			w.dict, w.useDict = testDict(t, o.Codec == base.CodecZstd), true
			s.values = []int{60, 90}
		}
		b := encode(t, &w, s.entries(rng, c, rng.IntN(12)))
		w.Free()
		blocks, cs = append(blocks, b), append(cs, c)
	}
	return blocks, cs
}

// TestDamagedBytes changes every byte of small blocks: whatever a block then says, nothing is read
// outside of it, and nothing but a Corruption is told.
func TestDamagedBytes(t *testing.T) {
	x := newExerciser(t)
	blocks, cs := smallBlocks(t)
	valid, refused := 0, 0
	for n, b := range blocks {
		d := bytes.Clone(b)
		if !x.exercise(t, d, cs[n], []byte("k1")) {
			t.Fatalf("block %d is refused as it is", n)
		}
		for i := range d {
			changes := []byte{1, 2, 4, 8, 16, 32, 64, 128, 255}
			if i > 100 {
				changes = changes[i%9 : i%9+1]
			}
			for _, m := range changes {
				d[i] ^= m
				if x.exercise(t, d, cs[n], []byte("k1")) {
					valid++
				} else {
					refused++
				}
				d[i] ^= m
			}
		}
		for i := range d {
			if i > 100 && i%7 > 0 {
				continue
			}
			x.exercise(t, d[:i], cs[n], []byte("k1"))
		}
	}
	if valid < 1000 || refused < 1000 {
		t.Errorf("%d changes made a valid block, %d were refused: the test sees one side only",
			valid, refused)
	}
}

// FuzzOpen: any bytes are refused as a Corruption or read without a read outside of them.
func FuzzOpen(f *testing.F) {
	blocks, _ := smallBlocks(f)
	for i, b := range blocks {
		if i%3 == 0 && len(b) < 1000 {
			f.Add(b, []byte("a-long-common-prefix/1"))
		}
	}
	f.Fuzz(func(t *testing.T, b, target []byte) {
		if len(b) > 1<<16 {
			return
		}
		x := newExerciser(t)
		for _, c := range orders {
			x.exercise(t, b, c, target)
		}
	})
}

// FuzzRoundTrip: entries made of any bytes come back from a block.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("\x03abc\x05value\x01\x02abd\x00\x02\x00"), uint8(0), uint8(1))
	f.Add(bytes.Repeat([]byte("\x04key0\x20aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbb\x01"), 9), uint8(1),
		uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, order, packing uint8) {
		c := orders[int(order)%len(orders)]
		o := packings[int(packing)%len(packings)]
		o.Comparer = c
		es := fuzzEntries(data)
		es = model.SortUnique(c, es)
		var w Writer
		defer w.Free()
		if err := w.Reset(o); err != nil {
			t.Fatal(err)
		}
		b := encode(t, &w, es)
		x := newExerciser(t)
		if !x.exercise(t, b, c, []byte("key")) {
			t.Fatal("refused")
		}
		v := Reopen(b)
		if err := v.CheckOrder(c); err != nil {
			t.Fatal(err)
		}
		var e base.Chunk
		if err := v.Chunk(&e, nil, testLimit, &x.chunk, &x.heap); err != nil {
			t.Fatal(err)
		}
		checkChunk(t, c, es, &e)
		for i := range es {
			if got := v.Get(c, base.MakeLookup(c, es[i].Key, es[i].Trailer.Seq())); got < 0 ||
				got > i {
				t.Fatalf("entry %d is got at %d", i, got)
			}
			if got := v.SeekGE(c, es[i].Key, es[i].Trailer); got != i {
				t.Fatalf("entry %d is found at %d", i, got)
			}
		}
	})
}

// fuzzEntries reads a key, a value and a trailer's bytes over and over.
func fuzzEntries(data []byte) (es []model.Entry) {
	cut := func() []byte {
		if len(data) == 0 {
			return []byte{}
		}
		n := min(int(data[0]), len(data)-1)
		p := data[1 : 1+n]
		data = data[1+n:]
		return p
	}
	for len(data) > 0 && len(es) < 200 && len(data) < 1<<14 {
		key, value := cut(), cut()
		t := uint64(0)
		for _, x := range cut() {
			t = t<<8 | uint64(x)
		}
		kind := base.Kind(t) % base.KindForSeek
		es = append(es,
			model.Entry{Key: key, Value: value, Trailer: base.MakeTrailer(base.SeqNum(t>>8), kind)})
	}
	return es
}

// FuzzShort: any bytes are unpacked within their bounds, and what was packed comes back.
func FuzzShort(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabcabcabcabcabc"), uint16(40))
	f.Add([]byte("\xf0\x20abc\x01"), uint16(300))
	f.Fuzz(func(t *testing.T, p []byte, n uint16) {
		if len(p) > 1<<15 {
			return
		}
		guard := newGuard(t, 1<<17)
		dst := make([]byte, int(n)+wideCopy+8)
		for i := range dst[int(n)+wideCopy:] {
			dst[int(n)+wideCopy+i] = 0xa5
		}
		dict := make([]byte, 300, 300+wideCopy)
		copy(dict, "a dictionary of some words: river stone meadow lantern harvest")
		for _, d := range [][]byte{nil, dict} {
			unpackShort(dst[:n], guard(p), d, len(p))
		}
		if !bytes.Equal(dst[int(n)+wideCopy:], bytes.Repeat([]byte{0xa5}, 8)) {
			t.Fatal("wrote too far")
		}
		if len(p) > maxShort {
			p = p[:maxShort]
		}
		var table shortTable
		packed := make([]byte, len(p))
		m := table.packShort(packed, p)
		back := make([]byte, len(p)+wideCopy)
		if m > 0 && (!unpackShort(back[:len(p)], guard(packed[:m]), nil, m) ||
			!bytes.Equal(back[:len(p)], p)) {
			t.Fatalf("%q comes back as %q", p, back[:len(p)])
		}
		d, err := newDictPacker(dict, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		if m := d.packShort(packed, p); m > 0 &&
			(!unpackShort(back[:len(p)], guard(packed[:m]), d.dict.content, m) ||
				!bytes.Equal(back[:len(p)], p)) {
			t.Fatalf("%q comes back as %q with a dictionary", p, back[:len(p)])
		}
	})
}
