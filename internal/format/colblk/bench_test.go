package colblk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/workload"
)

// benchEntries are what db_bench writes: decimal keys of 16 bytes and values of 100 that
// compress to half. A random fill leaves random sequence numbers.
type benchEntries struct {
	values  workload.Values
	rng     *rand.Rand
	randSeq bool
	next    int
	key     [16]byte
}

func newBenchEntries(randSeq bool) *benchEntries {
	return &benchEntries{values: workload.NewValueData(0.5, 100).Values(),
		rng: rand.New(rand.NewPCG(1, 2)), randSeq: randSeq}
}

func benchKey(key []byte, n int) {
	for j := len(key) - 1; j >= 0; j-- {
		key[j] = byte('0' + n%10)
		n /= 10
	}
}

func (b *benchEntries) entry() model.Entry {
	n := b.next
	b.next++
	seq := 1_000_000 + n
	if b.randSeq {
		seq = b.rng.IntN(4_000_000)
	}
	benchKey(b.key[:], n)
	return model.Entry{Key: b.key[:], Value: b.values.Next(100),
		Trailer: base.MakeTrailer(base.SeqNum(seq), base.KindSet)}
}

// fill adds entries until the next one does not fit and returns the block.
func (b *benchEntries) fill(t testing.TB, w *Writer, limit int) []byte {
	for {
		e := b.entry()
		if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
			t.Fatal(err)
		}
		if !w.Fits(limit) {
			dst := aligned(w.size())
			p, err := w.Finish(dst[:0], w.Len()-1)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
}

const benchBlock = 4096 - block.TrailerLen

func benchWriter(t testing.TB, o Options) *Writer {
	w := new(Writer)
	o.Comparer, o.MaxUnpacked = base.Bytewise, testLimit
	if err := w.Reset(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Free)
	return w
}

// TestBytesPerEntry holds the block to what db_bench's entries may take.
func TestBytesPerEntry(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		randSeq bool
		limit   int
		most    float64
	}{
		{"in order", Options{Packing: PackValues, Codec: base.CodecSnappy}, false, benchBlock, 56},
		{"random", Options{Packing: PackValues, Codec: base.CodecSnappy}, true, benchBlock, 59},
		{"not packed", Options{Packing: PackNone}, false, benchBlock, 105},
		{"snappy heap", Options{Packing: PackHeap, Codec: base.CodecSnappy}, true, 16 << 10, 61},
		{"zstd heap", Options{Packing: PackHeap, Codec: base.CodecZstd}, true, 16 << 10, 49.5},
	} {
		es := newBenchEntries(c.randSeq)
		w := benchWriter(t, c.o)
		n, size := 0, 0
		for range 300 {
			p := es.fill(t, w, c.limit)
			v, err := Open(p, base.Bytewise)
			if err != nil {
				t.Fatal(err)
			}
			n += v.Len()
			size += len(p)
		}
		per := float64(size) / float64(n)
		t.Logf("%s: %.2f bytes an entry, %.1f entries a block", c.name, per, float64(n)/300)
		if per > c.most {
			t.Errorf("%s: %.2f bytes an entry, at most %v are wanted", c.name, per, c.most)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, bc := range packings {
		b.Run(fmt.Sprintf("packing=%d,codec=%d", bc.Packing, bc.Codec), func(b *testing.B) {
			w := benchWriter(b, bc)
			es := newBenchEntries(true)
			dst := aligned(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				e := es.entry()
				if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
					b.Fatal(err)
				}
				if !w.Fits(benchBlock) {
					if _, err := w.Finish(dst[:0], w.Len()-1); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("packed", func(b *testing.B) { // as a compaction's source has them
		var packed []model.Entry
		var buf block.Buffer
		w := benchWriter(b, Options{Packing: PackValues, Codec: base.CodecSnappy})
		es := newBenchEntries(true)
		for range 200 {
			v := Reopen(es.fill(b, w, benchBlock))
			var e base.Chunk
			if err := v.Chunk(&e, nil, testLimit, &buf, nil); err != nil ||
				e.Codec(0) != base.CodecShort {
				b.Fatal(err)
			}
			for i := range v.Len() {
				packed = append(packed,
					model.Entry{Key: bytes.Clone(e.Key(i)), Value: bytes.Clone(e.Value(i)),
						Trailer: e.Trailers[i]})
			}
		}
		dst := aligned(1 << 20)
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			e := &packed[i]
			if i++; i == len(packed) {
				i = 0
			}
			if err := w.Add(e.Key, e.Trailer, base.CodecShort, e.Value); err != nil {
				b.Fatal(err)
			}
			if !w.Fits(benchBlock) {
				if _, err := w.Finish(dst[:0], w.Len()-1); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// benchBlocks are blocks in one piece of memory, on pages of their own.
type benchBlocks struct {
	mem   []byte
	size  []int
	first []int // number of the first key
}

func newBenchBlocks(b *testing.B, blocks int, o Options) *benchBlocks {
	m := &benchBlocks{mem: aligned(blocks * 4096)}
	offheap.AdviseHuge(m.mem)
	w := benchWriter(b, o)
	es := newBenchEntries(true)
	n := 0
	for i := range blocks {
		p := es.fill(b, w, benchBlock)
		copy(m.mem[i*4096:], p)
		v := Reopen(p)
		m.size = append(m.size, len(p))
		m.first = append(m.first, n)
		n += v.Len()
		offheap.Free(p[:cap(p)])
	}
	m.first = append(m.first, n)
	return m
}

func (m *benchBlocks) block(i int) []byte { return m.mem[i*4096:][:m.size[i]] }

func BenchmarkGetInPlace(b *testing.B) {
	for _, blocks := range []int{1, 1 << 14} {
		for _, o := range packings[:2] {
			b.Run(fmt.Sprintf("blocks=%d,packing=%d", blocks, o.Packing), func(b *testing.B) {
				m := newBenchBlocks(b, blocks, o)
				rng := rand.New(rand.NewPCG(1, 2))
				var key [16]byte
				dst := make([]byte, 0, 128)
				b.ReportAllocs()
				for b.Loop() {
					i := int(rng.Uint32()) & (blocks - 1)
					benchKey(key[:], m.first[i]+rng.IntN(m.first[i+1]-m.first[i]))
					v := Reopen(m.block(i))
					at := v.Get(base.Bytewise, base.HashedLookup(key[:], 0, base.MaxSeqNum))
					if at < 0 {
						b.Fatal("missing")
					}
					var err error
					if dst, err = v.AppendValue(dst[:0], at, nil, testLimit, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	m := newBenchBlocks(b, 1, packings[1])
	p := m.block(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(p, base.Bytewise); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToView(b *testing.B) {
	for _, o := range packings[:3] {
		b.Run(fmt.Sprintf("packing=%d", o.Packing), func(b *testing.B) {
			m := newBenchBlocks(b, 1, o)
			p := m.block(0)
			n := m.first[1]
			mem := aligned(64 << 10)
			var scratch block.Buffer
			b.ReportAllocs()
			for b.Loop() {
				v := Reopen(p)
				s, err := v.Measure(testLimit)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := v.BuildView(mem, s, base.Bytewise, block.PointLookup, nil,
					&scratch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, o := range packings[:3] {
		b.Run(fmt.Sprintf("packing=%d", o.Packing), func(b *testing.B) {
			m := newBenchBlocks(b, 1, o)
			p := m.block(0)
			n := m.first[1]
			var buf, scratch block.Buffer
			var e base.Chunk
			b.ReportAllocs()
			for b.Loop() {
				v := Reopen(p)
				if err := v.Chunk(&e, nil, testLimit, &buf, &scratch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func BenchmarkViewGetOf(b *testing.B) {
	for _, cols := range []block.Columns{block.Abbreviations, block.PointLookup} {
		b.Run(fmt.Sprintf("columns=%d", cols), func(b *testing.B) {
			m := newBenchBlocks(b, 1, packings[1])
			v := Reopen(m.block(0))
			s, _ := v.Measure(testLimit)
			view, err := v.BuildView(aligned(s.ViewSize(cols)), s, base.Bytewise, cols, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var key [16]byte
			dst := make([]byte, 0, 128)
			for b.Loop() {
				benchKey(key[:], rng.IntN(m.first[1]))
				at := view.Get(base.Bytewise,
					base.MakeLookup(base.Bytewise, key[:], base.MaxSeqNum))
				if at < 0 {
					b.Fatal("missing")
				}
				dst = append(dst[:0], view.Value(at)...)
			}
		})
	}
}

// BenchmarkRows is what LevelDB's rows cost with the same entries, for comparison: a search
// without a View, and the building of one.
func BenchmarkRows(b *testing.B) {
	m := newBenchBlocks(b, 1, packings[0])
	v := Reopen(m.block(0))
	rows := block.RowBuilder{Interval: 16}
	defer rows.Free()
	n := v.Len()
	for i := range n {
		value, err := v.AppendValue(nil, i, nil, testLimit, nil)
		if err == nil {
			err = rows.Add(v.AppendKey(nil, i), v.Trailer(i), value)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	p, err := rows.Finish()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("SearchRows", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		var key [16]byte
		var buf block.Buffer
		defer buf.Free()
		for b.Loop() {
			benchKey(key[:], rng.IntN(n))
			s, err := block.SearchRows(p, testLimit, base.Bytewise,
				base.HashedLookup(key[:], 0, base.MaxSeqNum), &buf)
			if err != nil || !s.Found {
				b.Fatal("missing", err)
			}
		}
	})
	b.Run("BuildView", func(b *testing.B) {
		mem := aligned(64 << 10)
		for b.Loop() {
			s, err := block.Measure(p, testLimit)
			if err == nil {
				_, err = block.BuildView(mem, p, s, base.Bytewise, block.PointLookup)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
