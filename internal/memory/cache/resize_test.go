package cache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestResize changes the capacities of caches of odd sizes, and what is charged to them, while
// blocks come and go: each block has its bytes, and the headers tile the rings.
func TestResize(t *testing.T) {
	for _, capacity := range []int64{1200 << 10, 1<<20 + 300, 3_000_000, 20_000_000} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(capacity, shared), func(t *testing.T) { resize(t, capacity, shared) })
		}
	}
}

func resize(t *testing.T, capacity int64, shared bool) {
	const blockLen = 3000
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	blocks := int(capacity/blockLen) * 5 / 4
	make := cache.New
	if shared {
		make = cache.NewShared
	}
	c := make(capacity)
	s := c.NewSlots(blocks)
	held := map[int]cache.Frame{} // by block
	for round := range 24 {
		for range blocks {
			block := min(rng.IntN(blocks), rng.IntN(blocks))
			f, _ := load(t, c, s, 7, block, blockLen+block%200)
			check(t, f, 7, block, 0, 1024)
			if old, ok := held[block]; ok {
				check(t, old, 7, block)
				old.Release()
				delete(held, block)
			}
			if len(held) < 20 && rng.IntN(20) == 0 {
				held[block] = f
			} else {
				f.Release()
			}
		}
		if err := c.CheckRings(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		n, charged := capacity, int64(0)
		if round%2 == 0 {
			n, charged = rng.Int64N(capacity/(1+20*rng.Int64N(2))), rng.Int64N(capacity)
		}
		c.Charge(charged)
		if !c.SetCapacity(n) {
			t.Fatalf("a capacity of %d is refused", n)
		}
		if err := c.CheckRings(); err != nil {
			t.Fatalf("round %d, capacity %d: %v", round, n, err)
		}
		c.Charge(-charged)
	}
	for block, f := range held {
		check(t, f, 7, block)
		f.Release()
	}
	finish(t, c, s)
}
