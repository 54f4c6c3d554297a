package ldb

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/vfs"
)

const benchEntries = 400_000

func benchKey(dst []byte, i int) []byte {
	n := i * 3
	dst = append(dst[:0], "0000000000000000"...)
	for j := 15; n > 0; j-- {
		dst[j] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// benchValues are 100 bytes each that compress to half.
var benchValues = func() []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 0, 1<<20)
	for len(b) < 1<<20-100 {
		half := make([]byte, 50)
		for i := range half {
			half[i] = byte(' ' + rng.IntN(95))
		}
		b = append(append(b, half...), half...)
	}
	return b
}()

func benchValue(i int) []byte {
	at := i * 100 % (len(benchValues) - 200)
	at -= at % 100
	return benchValues[at : at+100]
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Sync() error                 { return nil }
func (discard) Close() error                { return nil }

func benchWrite(b *testing.B, f vfs.WriteFile, n int) {
	w := NewWriter(f, sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 4096, RestartInterval: 16, Compression: sstable.Snappy, BloomBits: 10})
	var key []byte
	for i := range n {
		key = benchKey(key, i)
		if err := w.Add(key, base.MakeTrailer(base.SeqNum(i+1), base.KindSet), 0, benchValue(i)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	w.Close()
}

func perEntry(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
}

// BenchmarkWrite is encode, snappy, crc and filter, without a file.
func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchWrite(b, discard{}, benchEntries)
	}
	perEntry(b, benchEntries)
}

func benchReader(b *testing.B, capacity int64) *Reader {
	path := filepath.Join(b.TempDir(), "000001.ldb")
	w, err := vfs.Default.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	benchWrite(b, w, benchEntries)
	f, err := vfs.Default.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	var c *cache.Cache
	if capacity > 0 {
		c = cache.New(capacity)
	}
	r, err := Open(f, Env{Name: "000001.ldb", Cache: c, Comparer: base.Bytewise})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		r.Close()
		f.Close()
		if c != nil {
			c.Unref()
		}
	})
	return r
}

func BenchmarkScan(b *testing.B) {
	for _, bc := range []struct {
		name     string
		capacity int64
		flags    sstable.ReadFlags
	}{
		{"cached", 128 << 20, 0},
		{"private", 0, sstable.Private},
		{"uncached", 4 << 20, 0},
		{"uncached-ahead", 4 << 20, sstable.Scan},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := benchReader(b, bc.capacity)
			scan := func() {
				var e base.Chunk
				sum, n := 0, 0
				src := r.NewSource(bc.flags)
				first, err := src.First(&e)
				for ok := first == 0; ok; ok, err = src.Next(&e) {
					for i := range e.Len() {
						sum += len(e.Key(i)) + int(e.Value(i)[0])
						n++
					}
				}
				if n != benchEntries || err != nil {
					b.Fatal(n, err)
				}
				src.Close()
			}
			scan()
			b.ResetTimer()
			for b.Loop() {
				scan()
			}
			perEntry(b, benchEntries)
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, bc := range []struct {
		name     string
		capacity int64
		flags    sstable.ReadFlags
		spread   int
		odd      int
	}{
		{"cached", 128 << 20, 0, benchEntries, 0},
		{"hot", 128 << 20, 0, 30, 0},
		{"warm", 0, 0, benchEntries, 0},
		{"fill", 4 << 20, 0, benchEntries, 0},
		{"absent", 128 << 20, 0, benchEntries, 1},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := benchReader(b, bc.capacity)
			var key, dst []byte
			get := func(i int) {
				key = benchKey(key, i)
				key[15] += byte(bc.odd)
				var found bool
				var err error
				if dst, _, found, err = r.Get(base.MakeLookup(base.Bytewise, key, base.MaxSeqNum), bc.flags, dst[:0]); err != nil || found != (bc.odd == 0) {
					b.Fatal(found, err)
				}
			}
			if bc.capacity > 100<<20 && bc.odd == 0 {
				for i := range benchEntries {
					get(i)
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				get(rng.IntN(bc.spread))
			}
		})
	}
}

// BenchmarkGetAt has the block known, so that it is the slot, the view and the
// copy of the value.
func BenchmarkGetAt(b *testing.B) {
	r := benchReader(b, 128<<20)
	var key, dst []byte
	at := make([]sstable.Position, benchEntries)
	for i := range at {
		key = benchKey(key, i)
		l := base.MakeLookup(base.Bytewise, key, base.MaxSeqNum)
		at[i], _ = r.Find(l)
		r.GetAt(at[i], l, 0, nil)
	}
	for _, spread := range []int{30, benchEntries} {
		b.Run(fmt.Sprintf("keys=%d", spread), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				i := rng.IntN(spread)
				key = benchKey(key, i)
				var found bool
				if dst, _, found, _ = r.GetAt(at[i], base.MakeLookup(base.Bytewise, key, base.MaxSeqNum), 0, dst[:0]); !found {
					b.Fatal("missing")
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	r := benchReader(b, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	var key []byte
	for b.Loop() {
		key = benchKey(key, rng.IntN(benchEntries))
		if _, ok := r.Find(base.HashedLookup(key, 0, base.MaxSeqNum)); !ok {
			b.Fatal("missing")
		}
	}
	b.ReportMetric(float64(r.props.Blocks), "blocks")
}

func BenchmarkOpen(b *testing.B) {
	r := benchReader(b, 0)
	b.ReportAllocs()
	for b.Loop() {
		o, err := Open(r.src, r.env)
		if err != nil {
			b.Fatal(err)
		}
		o.Close()
	}
}
