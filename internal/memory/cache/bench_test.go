package cache_test

import (
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/memory/cache"
)

// BenchmarkHit is a lookup, a look at the first byte, and the release.
func BenchmarkHit(b *testing.B) {
	for _, n := range []int{64, 60000} {
		b.Run(map[int]string{64: "hot", 60000: "cold"}[n], func(b *testing.B) {
			c := cache.New(512 << 20)
			s := c.NewSlots(n)
			for i := range n {
				f, _ := load(b, c, s, 1, i, 4096)
				f.Release()
			}
			rng := rand.New(rand.NewPCG(1, 2))
			order := make([]uint16, 1<<16)
			for i := range order {
				order[i] = uint16(rng.IntN(n))
			}
			sum, i := byte(0), 0
			for b.Loop() {
				f, ok := s.Lookup(int(order[i&(len(order)-1)]))
				if ok {
					sum += f.Bytes()[0]
					f.Release()
				}
				i++
			}
			b.StopTimer()
			s.Free()
			c.Unref()
		})
	}
}

func BenchmarkHitParallel(b *testing.B) {
	c := cache.New(64 << 20)
	s := c.NewSlots(64)
	for i := range 64 {
		f, _ := load(b, c, s, 1, i, 4096)
		f.Release()
	}
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			f, _ := s.Lookup(i & 63)
			f.Release()
		}
	})
	s.Free()
	c.Unref()
}

// BenchmarkInsert replaces blocks in a full cache, without filling them.
func BenchmarkInsert(b *testing.B) {
	for _, hot := range []bool{false, true} {
		b.Run(map[bool]string{false: "cold", true: "half-read"}[hot], func(b *testing.B) {
			c := cache.New(64 << 20)
			const n = 100000
			s := c.NewSlots(n)
			i := 0
			for b.Loop() {
				if f, ok := s.Lookup(i % n); ok {
					f.Release()
				} else {
					s.Publish(i%n, c.Alloc(4000+i%500)).Release()
				}
				if hot && i%2 == 0 {
					if f, ok := s.Lookup(i % n); ok {
						f.Release()
					}
				}
				i++
			}
			b.StopTimer()
			s.Free()
			c.Unref()
		})
	}
}

// BenchmarkZipf reports the hit ratio of skewed reads with and without scans
// between them, in a cache that holds a tenth of the blocks.
func BenchmarkZipf(b *testing.B) {
	for _, scan := range []bool{false, true} {
		b.Run(map[bool]string{false: "points", true: "with-scans"}[scan], func(b *testing.B) {
			const blocks, size = 80000, 4032
			c := cache.New(blocks / 10 * (size + 64))
			s := c.NewSlots(2 * blocks)
			rng := rand.New(rand.NewPCG(1, 2))
			zipf := rand.NewZipf(rng, 1.01, 50, blocks-1)
			hits, reads, next := 0, 0, 0
			read := func(i int) bool {
				if f, ok := s.Lookup(i); ok {
					f.Release()
					return true
				}
				s.Publish(i, c.Alloc(size)).Release()
				return false
			}
			for b.Loop() {
				for range 100 {
					i := int(zipf.Uint64()) * 7919 % blocks
					if read(i) {
						hits++
					}
					reads++
				}
				if scan {
					for range 50 {
						read(blocks + next%blocks)
						next++
					}
				}
			}
			b.ReportMetric(float64(hits)/float64(reads), "hits/read")
			st := c.Stats()
			b.ReportMetric(float64(st.Moves)/float64(st.Inserts), "moves/insert")
			s.Free()
			c.Unref()
		})
	}
}
