package colblk

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
)

var orders = []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.LengthFirst, model.Fold}

// namesakes has for each built-in comparer one of the program's that has its name and its order.
var namesakes = map[*base.Comparer]*base.Comparer{
	base.Bytewise:        copyOf(base.Bytewise),
	base.ReverseBytewise: copyOf(base.ReverseBytewise),
}

func copyOf(c *base.Comparer) *base.Comparer {
	d := *c
	return &d
}

const testLimit = 64 << 20

// kinds are all that the format must hold, known to the engine or not.
var kinds = []base.Kind{base.KindSet, base.KindDelete, 2, 3, 15, 17, 0x7e}

// shapes are generators of keys and values.
type shape struct {
	prefix  string
	tails   []int  // lengths to choose from
	letters string // of tails
	seqs    uint64
	// of sequence numbers in the order of keys, where they have one; 0: random ones
	step   base.SeqNum
	kinds  int
	values []int
}

func randomShape(rng *rand.Rand) shape {
	lengths := [][]int{{0}, {1}, {2}, {3}, {7}, {8}, {9}, {16}, {30}, {0, 1, 2}, {0, 4, 8}, {8, 9},
		{1, 20}, {0, 3, 9, 13}}
	return shape{
		prefix:  []string{"", "k", "a-long-common-prefix/"}[rng.IntN(3)],
		tails:   lengths[rng.IntN(len(lengths))],
		letters: []string{"\x00\x01aAbB\xfe\xff", "0123456789", "\x00", "\xff\x00"}[rng.IntN(4)],
		seqs:    []uint64{1, 2, 600, 70_000, 1 << 33, 1 << 56}[rng.IntN(6)],
		kinds:   []int{1, 1, 2, len(kinds)}[rng.IntN(4)],
		step:    []base.SeqNum{0, 0, 0, 1, 255, 256}[rng.IntN(6)],
		values: [][]int{{0}, {1}, {7}, {100}, {0, 1}, {90, 110}, {0, 3000}, {5, 70_000},
			{100, 100, 100, 100_000}}[rng.IntN(9)],
	}
}

func (s *shape) entries(rng *rand.Rand, c *base.Comparer, n int) []model.Entry {
	es := make([]model.Entry, n)
	for i := range es {
		key := []byte(s.prefix)
		for range s.tails[rng.IntN(len(s.tails))] {
			key = append(key, s.letters[rng.IntN(len(s.letters))])
		}
		kind := kinds[rng.IntN(s.kinds)]
		seq := base.SeqNum(rng.Uint64N(s.seqs))
		if s.step > 0 {
			seq = base.SeqNum(i) * s.step
		}
		es[i] = model.Entry{Key: key, Value: value(rng, s.values[rng.IntN(len(s.values))]),
			Trailer: base.MakeTrailer(seq, kind)}
		if kind == base.KindDelete {
			es[i].Value = []byte{}
		}
	}
	es = model.SortUnique(c, es)
	for i := range es {
		if s.step > 0 && i > 0 && c.Cmp(es[i].Key, es[i-1].Key) != 0 {
			es[i].Trailer = base.MakeTrailer(base.SeqNum(i)*s.step, es[i].Trailer.Kind())
		}
	}
	return model.SortUnique(c, es)
}

// value is n bytes, of which the second half repeats the first or does not.
func value(rng *rand.Rand, n int) []byte {
	v := make([]byte, n)
	half := n
	if rng.IntN(4) > 0 {
		half = (n + 1) / 2
	}
	for i := range v {
		if i < half {
			v[i] = byte(rng.Uint32())
		} else {
			v[i] = v[i-half]
		}
	}
	return v
}

var packings = []Options{
	{Packing: PackNone}, {Packing: PackValues, Codec: base.CodecSnappy},
	{Packing: PackHeap, Codec: base.CodecSnappy}, {Packing: PackValues, Codec: base.CodecZstd},
	{Packing: PackHeap, Codec: base.CodecZstd},
}

func encode(t testing.TB, w *Writer, es []model.Entry) []byte {
	t.Helper()
	for _, e := range es {
		if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
			t.Fatal(err)
		}
	}
	size := w.size()
	if lo, hi := w.facts.bounds(); uint64(size) < lo || uint64(size) > hi {
		t.Fatalf("%d bytes, bounds are %d and %d", size, lo, hi)
	}
	heap := w.o.Packing == PackHeap
	b, err := w.Finish(nil, w.Len())
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > size || len(b) != size && !heap {
		t.Fatalf("%d bytes, size said %d", len(b), size)
	}
	return b
}

func aligned(n int) []byte {
	var b block.Buffer
	p, err := b.Resize(n)
	if err != nil {
		panic(err)
	}
	return p
}

// TestBlockHoldsEntries writes random entries and reads them in every way there is, at times with
// another comparer of the same name.
func TestBlockHoldsEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var w Writer
	defer w.Free()
	var scratch, heap block.Buffer
	defer scratch.Free()
	defer heap.Free()
	for round := range seed.Scale(200, 300, 3000) {
		c := orders[round%len(orders)]
		s := randomShape(rng)
		es := s.entries(rng, c, rng.IntN(90))
		o := packings[rng.IntN(len(packings))]
		o.Comparer, o.MaxUnpacked = c, testLimit
		if d := namesakes[c]; d != nil {
			o.Comparer = []*base.Comparer{c, c, d, d}[round/4%4]
			c = []*base.Comparer{c, d}[round/16%2]
		}
		if err := w.Reset(o); err != nil {
			t.Fatal(err)
		}
		b := encode(t, &w, es)
		v, err := Open(b, c)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		if err := v.CheckOrder(c); err != nil {
			t.Fatal(err)
		}
		var got []model.Entry
		for i := range v.Len() {
			val, err := v.AppendValue([]byte{}, i, nil, testLimit, &heap)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, model.Entry{Key: v.AppendKey([]byte{}, i), Value: val,
				Trailer: v.Trailer(i)})
		}
		compare(t, es, got)
		var e base.Chunk
		if err := v.Chunk(&e, nil, testLimit, &scratch, &heap); err != nil {
			t.Fatal(err)
		}
		checkChunk(t, c, es, &e)
		sh, err := v.Measure(testLimit)
		if err != nil {
			t.Fatal(err)
		}
		cols := block.Columns(rng.IntN(4))
		mem := aligned(sh.ViewSize(cols))
		view, err := v.BuildView(mem, sh, c, cols, nil, &heap)
		if err != nil {
			t.Fatal(err)
		}
		view.Chunk(&e)
		checkChunk(t, c, es, &e)
		checkSearches(t, rng, c, es, &v, &view)
		var mb block.Buffer
		mb.Set(mem)
		mb.Free()
	}
}

func compare(t *testing.T, want, got []model.Entry) {
	t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func checkChunk(t *testing.T, c *base.Comparer, es []model.Entry, e *base.Chunk) {
	t.Helper()
	want := model.Chunk(c, es)
	var got []model.Entry
	for i := range e.Len() {
		val, err := AppendUnpacked([]byte{}, e.Value(i), e.Codec(i), nil, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, model.Entry{Key: bytes.Clone(e.Key(i)), Value: val,
			Trailer: e.Trailers[i]})
	}
	compare(t, es, got)
	if e.AllLiveSets != want.AllLiveSets || e.MaxSeq != want.MaxSeq {
		t.Fatalf("all live sets %v, max seq %d, want %v, %d", e.AllLiveSets, e.MaxSeq,
			want.AllLiveSets, want.MaxSeq)
	}
}

// checkSearches compares Get and SeekGE with linear searches.
func checkSearches(t *testing.T, rng *rand.Rand, c *base.Comparer, es []model.Entry, v *Block,
	view *block.View) {
	t.Helper()
	for range 60 {
		key := []byte("a-long")
		if len(es) > 0 {
			key = bytes.Clone(es[rng.IntN(len(es))].Key)
		}
		switch rng.IntN(6) {
		case 0:
			key = append(key, "\x00ab\xff"[rng.IntN(4)])
		case 1:
			key = key[:rng.IntN(len(key)+1)]
		case 2:
			if len(key) > 0 {
				key[rng.IntN(len(key))] += byte(rng.IntN(3) - 1)
			}
		}
		seq := base.SeqNum(rng.Uint64N([]uint64{700, 1 << 56}[rng.IntN(2)]))
		target := base.MakeTrailer(seq, base.KindForSeek)
		ge := model.Search(c, es, key, target)
		if got := v.SeekGE(c, key, target); got != ge {
			t.Fatalf("%s: SeekGE(%q, %d) = %d, want %d", c.Name, key, seq, got, ge)
		}
		want := -1
		if ge < len(es) && c.Cmp(es[ge].Key, key) == 0 {
			want = ge
		}
		if got := v.Get(c, base.MakeLookup(c, key, seq)); got != want {
			t.Fatalf("%s: Get(%q, %d) = %d, want %d", c.Name, key, seq, got, want)
		}
		if got := view.Get(c, base.MakeLookup(c, key, seq)); got != want {
			t.Fatalf("%s: View.Get(%q, %d) = %d, want %d", c.Name, key, seq, got, want)
		}
		if got := view.SeekGE(c, key, target); got != ge {
			t.Fatalf("%s: View.SeekGE(%q, %d) = %d, want %d", c.Name, key, seq, got, ge)
		}
	}
}

// TestFinishLeavesTheRest finishes blocks of a part of the entries, as a table does whose
// blocks must not exceed a size.
func TestFinishLeavesTheRest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var w Writer
	defer w.Free()
	for round := range seed.Scale(60, 100, 1000) {
		s := randomShape(rng)
		es := s.entries(rng, base.Bytewise, 300)
		o := packings[round%2]
		o.Comparer = base.Bytewise
		if err := w.Reset(o); err != nil {
			t.Fatal(err)
		}
		limit := 200 + rng.IntN(4000)
		var got []model.Entry
		take := func(n int) {
			b, err := w.Finish([]byte("before"), n)
			if err != nil || !bytes.HasPrefix(b, []byte("before")) {
				t.Fatal(err)
			}
			b = b[6:]
			v, err := Open(b, base.Bytewise)
			if err != nil || v.Len() != n || n > 1 && len(b) > limit {
				t.Fatalf("%v: %d entries of %d in %d bytes", err, v.Len(), n, len(b))
			}
			for i := range v.Len() {
				val, err := v.AppendValue([]byte{}, i, nil, testLimit, nil)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, model.Entry{Key: v.AppendKey([]byte{}, i), Value: val,
					Trailer: v.Trailer(i)})
			}
		}
		for _, e := range es {
			if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
				t.Fatal(err)
			}
			if fits := w.Fits(limit); fits != (w.size() <= limit) {
				t.Fatalf("fits %v, %d of %d", fits, w.size(), limit)
			} else if !fits && w.Len() > 1 {
				take(w.Len() - 1)
			}
		}
		take(w.Len())
		compare(t, es, got)
	}
}

// maxSeq is the largest sequence number, 0 in an empty block.
func maxSeq(v *Block) base.SeqNum {
	_, seq := v.trailersTo(make([]base.Trailer, v.Len()))
	return seq
}

func TestEmptyBlock(t *testing.T) {
	for _, o := range packings {
		o.Comparer = base.Bytewise
		var w Writer
		if err := w.Reset(o); err != nil {
			t.Fatal(err)
		}
		b := encode(t, &w, nil)
		v, err := Open(b, base.Bytewise)
		if err != nil || v.Len() != 0 || maxSeq(&v) != 0 || v.SeekGE(base.Bytewise, nil, 0) != 0 {
			t.Fatal(fmt.Sprint(err, v.Len()))
		}
		w.Free()
	}
}

// TestLargeValues writes values whose length is no stride, and keys of many bytes.
func TestLargeValues(t *testing.T) {
	pattern := bytes.Repeat([]byte("0123456789abcdef"), 20<<16)
	var buf, heap block.Buffer
	defer buf.Free()
	defer heap.Free()
	for _, o := range packings[:3] {
		for _, lengths := range [][]int{{1 << 20}, {17 << 20, 17 << 20}, {0, 16 << 20, 1, 300}} {
			w := benchWriter(t, o)
			var es []model.Entry
			for i, n := range lengths {
				key := append(bytes.Repeat([]byte("k"), 70_000), byte(i))
				es = append(es, model.Entry{Key: key, Value: pattern[i : i+n],
					Trailer: base.MakeTrailer(9, base.KindSet)})
			}
			compare(t, es, appendEntries(t, nil, encode(t, w, es), &buf, &heap))
		}
	}
}

// TestOrderOfAnotherName: a block that another order wrote is not read by a comparer that does not
// have its name.
func TestOrderOfAnotherName(t *testing.T) {
	others := slices.AppendSeq(slices.Clone(orders), maps.Values(namesakes))
	for _, c := range others {
		var w Writer
		defer w.Free()
		if err := w.Reset(Options{Comparer: c, MaxUnpacked: testLimit}); err != nil {
			t.Fatal(err)
		}
		b := encode(t, &w, []model.Entry{{Key: []byte("a"), Trailer: base.MakeTrailer(1,
			base.KindSet)}})
		for _, d := range others {
			_, err := Open(b, d)
			// Those of the program with names of their own write alike.
			want := c.Name == d.Name || orderOf(c) == orderOf(d) ||
				orderOf(c) == plain && namesakes[d] != nil
			if (err == nil) != want {
				t.Errorf("written by %s, read by %s (%v, %v): %v", c.Name, d.Name, orderOf(c),
					orderOf(d), err)
			}
		}
	}
}
