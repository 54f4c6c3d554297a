package offheap

import (
	"errors"
	"math/rand"
	"sync"
	"testing"
	"unsafe"
)

func TestClasses(t *testing.T) {
	if got := classSize(numClasses - 1); got != maxSlab {
		t.Fatalf("largest class is %d, want %d", got, maxSlab)
	}
	for n := 1; n <= maxSlab; n++ {
		c := classOf(n)
		if classSize(c) < n || c > 0 && classSize(c-1) >= n {
			t.Fatalf("classOf(%d) = %d of size %d", n, c, classSize(c))
		}
	}
}

// TestZeroedAndDisjoint allocates and frees at random, filling each piece with
// its own byte: a piece that arrives dirty or changes under its owner is a bug.
func TestZeroedAndDisjoint(t *testing.T) {
	before, steps := InUse(), 2000
	if testing.Short() { // under the race detector each byte takes long
		steps = 500
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewSource(int64(g)))
			var held [][]byte
			drop := func(i int) {
				b := held[i]
				want := b[0]
				for _, c := range b {
					if c != want {
						t.Errorf("piece of %d bytes holds %d and %d", len(b), want, c)
						break
					}
				}
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
				Free(b[:rng.Intn(len(b)+1)])
			}
			for range steps {
				if len(held) > 0 && rng.Intn(5) < 2 {
					drop(rng.Intn(len(held)))
					continue
				}
				n := 1 + rng.Intn(1<<uint(rng.Intn(21)))
				b := alloc(n)
				if len(b) != n {
					t.Errorf("len %d, want %d", len(b), n)
				}
				for _, c := range b[:cap(b)] {
					if c != 0 {
						t.Errorf("piece of %d bytes not zero", n)
						break
					}
				}
				fill := byte(1 + rng.Intn(255))
				b = b[:cap(b)]
				for i := range b {
					b[i] = fill
				}
				held = append(held, b)
			}
			for len(held) > 0 {
				drop(len(held) - 1)
			}
		}()
	}
	wg.Wait()
	if got := InUse(); got != before {
		t.Errorf("in use %d before, %d after", before, got)
	}
	if n := len(pieces.chunks); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
	for c := range slabs {
		if n := len(slabs[c].spans); n != 0 {
			t.Errorf("class %d keeps %d spans", c, n)
		}
	}
}

func TestRelease(t *testing.T) {
	for _, n := range []int{100, 4096, 70000, 5 << 20} {
		b := alloc(n)
		AdviseHuge(b)
		for _, cut := range []int{0, 1, 4097} {
			if cut >= n {
				continue
			}
			for i := range b {
				b[i] = 7
			}
			Release(b[cut:])
			for i, c := range b {
				if want := byte(7); i < cut && c != want || i >= cut && c != 0 {
					t.Fatalf("n %d cut %d: byte %d is %d", n, cut, i, c)
				}
			}
		}
		Free(b)
	}
}

func TestAllocRefuses(t *testing.T) {
	for _, n := range []int{-1, maxSize() + 1, int(^uint(0) >> 1)} {
		if b, err := Alloc(n); !errors.Is(err, ErrNoMemory) {
			t.Errorf("Alloc(%d) = %d bytes, %v", n, len(b), err)
		}
	}
	if b, err := Alloc(0); len(b) != 0 || err != nil {
		t.Errorf("Alloc(0) = %v, %v", b, err)
	}
	Free(nil)
}

// TestPrefetch fetches what is there and what is not: neither changes anything.
func TestPrefetch(t *testing.T) {
	b := alloc(1000)
	b[999] = 7
	for _, n := range []int{0, 1, 64, 1000, 100 << 10} { // beyond the end, too
		Prefetch(unsafe.Pointer(&b[1]), n)
		Prefetch(nil, n)
	}
	if b[999] != 7 {
		t.Error("a byte changed")
	}
	Free(b)
}

func BenchmarkSlab(b *testing.B) {
	keep := alloc(1000)
	for b.Loop() {
		Free(alloc(1000))
	}
	Free(keep)
}

// BenchmarkGrowing has one piece of each class after the other, each the only one of its class.
func BenchmarkGrowing(b *testing.B) {
	keep := alloc(20 << 10) // the chunk stays
	for b.Loop() {
		last := alloc(1)
		for c := 1; c < numClasses; c++ {
			next := alloc(classSize(c))
			copy(next, last)
			Free(last)
			last = next
		}
		Free(last)
	}
	Free(keep)
}

func alloc(n int) []byte {
	b, err := Alloc(n)
	if err != nil {
		panic(err)
	}
	return b
}
