package offheap

import (
	"math/rand"
	"testing"
)

// TestSharedChunks allocates what 300 small tables have: it is dense, and when most of it is freed,
// the rest keeps at most a quarter of a chunk in addition.
func TestSharedChunks(t *testing.T) {
	const tables, filter, index = 300, 21 << 10, 10 << 10
	if n := len(pieces.chunks); n != 0 {
		t.Fatalf("%d chunks at the beginning", n)
	}
	var held [][]byte
	bytes := 0
	for range tables {
		for _, n := range []int{filter, index} {
			b := alloc(n)
			for i := range b {
				b[i] = 1
			}
			bytes += cap(b)
			held = append(held, b)
		}
	}
	if most := bytes/pageSize + fewPages + chunkPages; pieces.pages > most {
		t.Errorf("%d bytes lie in chunks of %d pages, want %d at most", bytes, pieces.pages, most)
	}
	rng := rand.New(rand.NewSource(1))
	rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	for len(held) > 10 {
		Free(held[0])
		held = held[1:]
	}
	for _, c := range pieces.chunks {
		if unused := c.dirty.count() - c.taken; unused < 0 ||
			unused > max(c.pages()/sparse, releaseFrom+c.taken) {
			t.Errorf("a chunk has %d pages in use, %d that are not", c.taken, unused)
		}
	}
	for _, b := range held {
		for _, x := range b {
			if x != 1 {
				t.Fatal("a piece changed when others were freed")
			}
		}
		Free(b)
	}
	if len(pieces.chunks) != 0 || pieces.pages != 0 {
		t.Errorf("%d chunks of %d pages at the end", len(pieces.chunks), pieces.pages)
	}
}

func TestPageSet(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	var s pageSet
	in := map[int]bool{}
	for range 400 {
		i := rng.Intn(chunkPages)
		if rng.Intn(3) == 0 {
			s.clear(i)
			delete(in, i)
		} else {
			s.set(i)
			in[i] = true
		}
	}
	if s.count() != len(in) {
		t.Errorf("count %d, want %d", s.count(), len(in))
	}
	for _, want := range []bool{true, false} {
		for i := range chunkPages + 1 {
			n := i
			for n < chunkPages && in[n] != want {
				n++
			}
			if got := s.next(i, want); got != n {
				t.Fatalf("next(%d, %v) = %d, want %d", i, want, got, n)
			}
			if i < chunkPages && s.has(i) != in[i] {
				t.Fatalf("has(%d) = %v", i, s.has(i))
			}
		}
	}
}

func BenchmarkPiece(b *testing.B) {
	keep := alloc(maxPiece)
	for b.Loop() {
		Free(alloc(20 << 10))
	}
	Free(keep)
}
