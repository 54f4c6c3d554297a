package tables

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Benchmark measures a format: db_bench's entries of 16 + 100 bytes, values that compress to
// half.
func Benchmark(b *testing.B, f Format) {
	spare := new(sstable.Spare)
	defer spare.Free()
	bench := &bench{f, spare}
	for _, bc := range []struct {
		name string
		run  func(*testing.B)
	}{
		{"Write", bench.write}, {"Copy", bench.copy}, {"Scan", bench.scan}, {"Get", bench.get},
		{"GetAt", bench.getAt}, {"Find", bench.find}, {"Open", bench.open},
	} {
		b.Run(bc.name, bc.run)
	}
}

type bench struct {
	Format
	spare *sstable.Spare // buffers, kept from writer to writer as a job does
}

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

func (f *bench) writer(w vfs.WriteFile) sstable.Writer {
	return f.New(w, sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 4096,
		RestartInterval: 16, Compression: sstable.Snappy, BloomBits: 10, Spare: f.spare})
}

func (f *bench) table(b *testing.B, file vfs.WriteFile) (size uint64) {
	w := f.writer(file)
	defer w.Close()
	var key []byte
	for i := range benchEntries {
		key = benchKey(key, i)
		if err := w.Add(key, base.MakeTrailer(base.SeqNum(i+1), base.KindSet), 0,
			benchValue(i)); err != nil {
			b.Fatal(err)
		}
	}
	meta, err := w.Finish()
	if err != nil {
		b.Fatal(err)
	}
	return meta.Size
}

func perEntry(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchEntries, "ns/entry")
}

// write is encoding, compression, checksums and the filter, without a file.
func (f *bench) write(b *testing.B) {
	b.ReportAllocs()
	size := uint64(0)
	for b.Loop() {
		size = f.table(b, discard{})
	}
	perEntry(b)
	b.ReportMetric(float64(size)/benchEntries, "bytes/entry")
}

// copy is what a compaction does with entries that nothing hides.
func (f *bench) copy(b *testing.B) {
	r := f.reader(b, 0, true)
	b.ReportAllocs()
	for b.Loop() {
		src := r.NewSource(sstable.Private)
		w := f.writer(discard{})
		err := base.Scan(src, func(e *base.Chunk) error {
			for i := range e.Len() {
				if err := w.Add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i)); err != nil {
					return err
				}
			}
			return nil
		})
		src.Close()
		if err == nil {
			_, err = w.Finish()
		}
		w.Close()
		if err != nil {
			b.Fatal(err)
		}
	}
	perEntry(b)
}

func (f *bench) reader(b *testing.B, capacity int64, mapped bool) sstable.Reader {
	path := filepath.Join(b.TempDir(), "000001.ldb")
	w, err := vfs.Default.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	f.table(b, w)
	file, err := vfs.Default.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	var c *cache.Cache
	if capacity > 0 {
		c = cache.New(capacity)
	}
	if !mapped {
		file = struct{ vfs.ReadFile }{file}
	}
	r, err := f.Format.Open(file, Env{Name: "000001.ldb", Cache: c, Comparer: base.Bytewise})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		r.Close()
		file.Close()
		if c != nil {
			c.Unref()
		}
	})
	return r
}

func (f *bench) scan(b *testing.B) {
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
			r := f.reader(b, bc.capacity, true)
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
			perEntry(b)
		})
	}
}

func (f *bench) get(b *testing.B) {
	for _, bc := range []struct {
		name     string
		capacity int64
		spread   int
		odd      int
		mapped   bool
	}{
		{"cached", 128 << 20, benchEntries, 0, true},
		{"hot", 128 << 20, 30, 0, true},
		{"mapped", 0, benchEntries, 0, true},
		{"mapped-fill", 4 << 20, benchEntries, 0, true},
		{"pread", 0, benchEntries, 0, false},
		{"pread-fill", 4 << 20, benchEntries, 0, false},
		{"absent", 128 << 20, benchEntries, 1, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := f.reader(b, bc.capacity, bc.mapped)
			var key, dst []byte
			get := func(i int) {
				key = benchKey(key, i)
				key[15] += byte(bc.odd)
				var found bool
				var err error
				if dst, _, found, err = r.Get(base.MakeLookup(base.Bytewise, key, base.MaxSeqNum),
					0, dst[:0]); err != nil || found != (bc.odd == 0) {
					b.Fatal(found, err)
				}
			}
			if bc.odd == 0 { // cached, or at least verified
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

// getAt has the block known, so that it is the slot, the view and the
// copy of the value.
func (f *bench) getAt(b *testing.B) {
	r := f.reader(b, 128<<20, true)
	var key, dst []byte
	at := make([]sstable.Position, benchEntries)
	for i := range at {
		key = benchKey(key, i)
		l := base.MakeLookup(base.Bytewise, key, base.MaxSeqNum)
		at[i], _ = r.Find(l)
		r.GetAt(at[i], l, 0, nil)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		i := rng.IntN(30)
		key = benchKey(key, i)
		var found bool
		if dst, _, found, _ = r.GetAt(at[i], base.MakeLookup(base.Bytewise, key, base.MaxSeqNum), 0,
			dst[:0]); !found {
			b.Fatal("missing")
		}
	}
}

func (f *bench) find(b *testing.B) {
	r := f.reader(b, 0, true)
	rng := rand.New(rand.NewPCG(1, 2))
	var key []byte
	for b.Loop() {
		key = benchKey(key, rng.IntN(benchEntries))
		if _, ok := r.Find(base.HashedLookup(key, 0, base.MaxSeqNum)); !ok {
			b.Fatal("missing")
		}
	}
	b.ReportMetric(float64(r.Props().Blocks), "blocks")
}

func (f *bench) open(b *testing.B) {
	path := filepath.Join(b.TempDir(), "000001.ldb")
	w, err := vfs.Default.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	f.table(b, w)
	file, err := vfs.Default.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	b.ReportAllocs()
	for b.Loop() {
		r, err := f.Format.Open(file, Env{Name: "000001.ldb", Comparer: base.Bytewise})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
