package iters

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
)

// benchSources spreads n sorted keys over k sources at random (or, with chunk
// above 1, chunk neighbours at a time), in chunks of 34 as 4 KiB blocks give.
func benchSources(k, n, chunk int) []base.Source {
	rng := rand.New(rand.NewPCG(1, 2))
	parts := make([][]model.Entry, k)
	value := make([]byte, 100)
	j := 0
	for i := range n {
		if i%chunk == 0 {
			j = rng.IntN(k)
		}
		parts[j] = append(parts[j], model.Entry{Key: fmt.Appendf(nil, "%016d", i*7), Value: value,
			Trailer: base.MakeTrailer(base.SeqNum(i+1), base.KindSet)})
	}
	var out []base.Source
	for _, es := range parts {
		s := &memSource{}
		for len(es) > 0 {
			m := min(34, len(es))
			s.chunks = append(s.chunks, model.Chunk(base.Bytewise, es[:m]))
			es = es[m:]
		}
		out = append(out, s)
	}
	return out
}

// memSource hands out prepared chunks without any cost.
type memSource struct {
	chunks []base.Chunk
	cur    int
}

func (s *memSource) take(i int, e *base.Chunk) bool {
	if i < 0 || i >= len(s.chunks) {
		return false
	}
	s.cur, *e = i, s.chunks[i]
	return true
}
func (s *memSource) First(e *base.Chunk) (int, error) { s.take(0, e); return 0, nil }
func (s *memSource) Last(e *base.Chunk) (int, error) {
	s.take(len(s.chunks)-1, e)
	return e.Len() - 1, nil
}
func (s *memSource) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	i, j := 0, len(s.chunks)
	for i < j {
		h := (i + j) / 2
		if x := &s.chunks[h]; base.Bytewise.Cmp(x.Key(x.Len()-1), key) < 0 {
			i = h + 1
		} else {
			j = h
		}
	}
	if !s.take(i, e) {
		return -1, nil
	}
	return lowerBound(base.Bytewise, e, 0, e.Len(), key), nil
}
func (s *memSource) SeekLT([]byte, base.Trailer, *base.Chunk) (int, error) { panic("unused") }
func (s *memSource) Next(e *base.Chunk) (bool, error) {
	return s.take(s.cur+1, e), nil
}
func (s *memSource) Prev(e *base.Chunk) (bool, error) { return s.take(s.cur-1, e), nil }
func (s *memSource) Close()                           {}

var sink int

func benchCursor(b *testing.B, name string, sources []base.Source, seq base.SeqNum) {
	b.Run(name+"/next", func(b *testing.B) {
		c := NewCursor(base.Bytewise, sources, seq, nil, nil)
		b.ReportAllocs()
		for b.Loop() {
			if !c.Next() {
				c.First()
			}
		}
	})
	b.Run(name+"/next+read", func(b *testing.B) {
		c := NewCursor(base.Bytewise, sources, seq, nil, nil)
		for b.Loop() {
			if !c.Next() {
				c.First()
			}
			sink += len(c.Key()) + len(c.Value())
		}
	})
	b.Run(name+"/prev", func(b *testing.B) {
		c := NewCursor(base.Bytewise, sources, seq, nil, nil)
		b.ReportAllocs()
		for b.Loop() {
			if !c.Prev() {
				c.Last()
			}
		}
	})
}

func BenchmarkCursor(b *testing.B) {
	const n = 50_000
	benchCursor(b, "k=1", benchSources(1, n, 1), base.MaxSeqNum)
	mixed := benchSources(1, n, 1)
	for i := range mixed[0].(*memSource).chunks {
		mixed[0].(*memSource).chunks[i].AllLiveSets = false
	}
	benchCursor(b, "k=1/mixed", mixed, base.MaxSeqNum)
	benchCursor(b, "k=2", benchSources(2, n, 1), base.MaxSeqNum)
	benchCursor(b, "k=2/chunks", benchSources(2, n, 100), base.MaxSeqNum)
	benchCursor(b, "k=4", benchSources(4, n, 1), base.MaxSeqNum)
	benchCursor(b, "k=8", benchSources(8, n, 1), base.MaxSeqNum)
	benchCursor(b, "k=32", benchSources(32, n, 1), base.MaxSeqNum)
}

func BenchmarkNewCursor(b *testing.B) {
	for _, k := range []int{1, 8} {
		sources := benchSources(k, 1000, 1)
		b.Run(fmt.Sprint("k=", k), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewCursor(base.Bytewise, sources, base.MaxSeqNum, nil, nil)
			}
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, k := range []int{1, 4, 16} {
		m := NewMerge(base.Bytewise, benchSources(k, 50_000, 1), nil, nil)
		b.Run(fmt.Sprint("k=", k), func(b *testing.B) {
			for n := 0; n < b.N; {
				if !m.Valid() {
					m.First()
				}
				_, i, end := m.NextSpan()
				n += end - i
				m.Advance(end)
			}
		})
	}
}
