package lsm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// benchKeys is how many keys the read benchmarks have. Data and views fit the
// cache.
const benchKeys = 1_000_000

var benchDB *DB

func benchKey(dst []byte, i uint64) []byte {
	dst = dst[:16]
	for j := 15; j >= 0; j-- {
		dst[j] = byte('0' + i%10)
		i /= 10
	}
	return dst
}

// loaded opens a database of benchKeys keys in random order, compacted, with
// everything cached. It is shared and never closed.
func loaded(b *testing.B) *DB {
	if benchDB != nil {
		return benchDB
	}
	db := mustOpen(b, b.TempDir(), &Options{CacheSize: 1 << 30})
	val := make([]byte, 100)
	r := rand.New(rand.NewPCG(1, 1))
	buf := make([]byte, 16)
	for _, i := range r.Perm(benchKeys) {
		for j := 0; j < 50; j += 8 {
			binary.LittleEndian.PutUint64(val[j:], r.Uint64())
		}
		if err := db.Put(benchKey(buf, uint64(i)), val, NoSync); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.CompactRange(nil, nil); err != nil {
		b.Fatal(err)
	}
	n := 0
	var err error
	for range db.All(nil, nil, &err) {
		n++
	}
	if n != benchKeys || err != nil {
		b.Fatal(n, err)
	}
	benchDB = db
	return db
}

func BenchmarkGet(b *testing.B) {
	db := loaded(b)
	buf, k := make([]byte, 0, 128), make([]byte, 16)
	r := rand.New(rand.NewPCG(2, 2))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = db.Get(benchKey(k, r.Uint64N(benchKeys)), buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetParallel(b *testing.B) {
	db := loaded(b)
	b.RunParallel(func(pb *testing.PB) {
		buf, k := make([]byte, 0, 128), make([]byte, 16)
		r := rand.New(rand.NewPCG(2, rand.Uint64()))
		for pb.Next() {
			buf, _ = db.Get(benchKey(k, r.Uint64N(benchKeys)), buf[:0])
		}
	})
}

func BenchmarkGetMissing(b *testing.B) {
	db := loaded(b)
	k := make([]byte, 17)
	r := rand.New(rand.NewPCG(2, 2))
	for b.Loop() {
		benchKey(k, r.Uint64N(benchKeys))
		k[16] = '.'
		db.Get(k[:17], nil)
	}
}

func BenchmarkMultiGet(b *testing.B) {
	db := loaded(b)
	keys := make([][]byte, 32)
	for i := range keys {
		keys[i] = make([]byte, 16)
	}
	var m MultiResult
	r := rand.New(rand.NewPCG(2, 2))
	for b.Loop() {
		for i := range keys {
			benchKey(keys[i], r.Uint64N(benchKeys))
		}
		if err := db.MultiGet(keys, &m); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/key")
}

func BenchmarkSeek(b *testing.B) {
	db := loaded(b)
	it := db.Iter(nil)
	defer it.Close()
	k := make([]byte, 16)
	r := rand.New(rand.NewPCG(2, 2))
	for b.Loop() {
		it.SeekGE(benchKey(k, r.Uint64N(benchKeys)))
	}
}

func BenchmarkIterSeekClose(b *testing.B) {
	db := loaded(b)
	k := make([]byte, 16)
	r := rand.New(rand.NewPCG(2, 2))
	b.ReportAllocs()
	for b.Loop() {
		it := db.Iter(nil)
		it.SeekGE(benchKey(k, r.Uint64N(benchKeys)))
		it.Close()
	}
}

func BenchmarkNext(b *testing.B) {
	it := loaded(b).Iter(nil)
	defer it.Close()
	benchScan(b, it.Next, it.First, it)
}

func BenchmarkPrev(b *testing.B) {
	it := loaded(b).Iter(nil)
	defer it.Close()
	benchScan(b, it.Prev, it.Last, it)
}

// benchScan makes moves, whose type the compiler does not know, as in a range-over-func loop.
func benchScan(b *testing.B, move, begin func() bool, it interface {
	Key() []byte
	Value() []byte
}) {
	sum := 0
	for range b.N {
		if !move() {
			begin()
		}
		sum += len(it.Key()) + len(it.Value())
	}
	if sum == 0 {
		b.Fatal("nothing was read")
	}
}

func BenchmarkPut(b *testing.B) {
	for _, order := range []string{"seq", "random"} {
		b.Run(order, func(b *testing.B) {
			db := mustOpen(b, b.TempDir(), nil)
			defer db.Close()
			val := make([]byte, 100)
			k := make([]byte, 16)
			r := rand.New(rand.NewPCG(2, 2))
			i := uint64(0)
			for b.Loop() {
				i++
				n := i
				if order == "random" {
					n = r.Uint64N(10 * benchKeys)
				}
				db.Put(benchKey(k, n), val, NoSync)
			}
		})
	}
}

func BenchmarkPutSync(b *testing.B) {
	db := mustOpen(b, b.TempDir(), nil)
	defer db.Close()
	for i := 0; b.Loop(); i++ {
		if err := db.Put(fmt.Appendf(nil, "%016d", i), make([]byte, 100), Sync); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompact rewrites everything: four overlapping runs merged into one.
func BenchmarkCompact(b *testing.B) {
	val := make([]byte, 100)
	k := make([]byte, 16)
	entries := 0
	for b.Loop() {
		b.StopTimer()
		db := mustOpen(b, b.TempDir(), &Options{DisableCompaction: true, WriteBufferSize: 32 << 20})
		r := rand.New(rand.NewPCG(2, 2))
		for range benchKeys {
			for j := 0; j < 50; j += 8 {
				binary.LittleEndian.PutUint64(val[j:], r.Uint64())
			}
			if err := db.Put(benchKey(k, r.Uint64N(10*benchKeys)), val, NoSync); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := db.CompactRange(nil, nil); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		entries += int(db.Metrics().Compact.EntriesIn)
		mustClose(b, db)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(entries), "ns/entry")
}

// BenchmarkFirstPuts times the first puts of a fresh database, apart from Open.
func BenchmarkFirstPuts(b *testing.B) {
	for _, n := range []int{100, 1000} {
		for name, ahead := range map[string]int64{"": 0, "/no preallocation": -1} {
			b.Run(fmt.Sprintf("%d%s", n, name), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					db := mustOpen(b, b.TempDir(), &Options{WALPreallocate: ahead})
					b.StartTimer()
					for i := range n {
						if err := db.Put(key(i), value(i), NoSync); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					mustClose(b, db)
				}
			})
		}
	}
}

// BenchmarkReopen times Open, whose log has 100 entries, apart from Close.
func BenchmarkReopen(b *testing.B) {
	dir := b.TempDir()
	db := mustOpen(b, dir, nil)
	for i := range 100 {
		if err := db.Put(key(i), value(i), NoSync); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		b.StopTimer()
		mustClose(b, db)
		b.StartTimer()
		db = mustOpen(b, dir, nil)
	}
	mustClose(b, db)
}

// BenchmarkManyGoroutines runs operations on 1, 2, 16 and 64 goroutines: those of the model
// in docs/locking.md, which has their times on one, and a Put.
func BenchmarkManyGoroutines(b *testing.B) {
	db, fewBlocks := loaded(b), benchKeys/100
	cold := mustOpen(b, b.TempDir(), &Options{CacheSize: 1 << 20})
	defer cold.Close()
	for i := range fewBlocks {
		if err := cold.Put(benchKey(make([]byte, 16), uint64(i)), make([]byte, 1000),
			NoSync); err != nil {
			b.Fatal(err)
		}
	}
	if err := cold.CompactRange(nil, nil); err != nil {
		b.Fatal(err)
	}
	ops := []struct {
		name string
		do   func(r *rand.Rand, key, buf []byte)
	}{
		{"Get", func(r *rand.Rand, key, buf []byte) {
			_, _ = db.Get(benchKey(key, r.Uint64N(benchKeys)), buf)
		}},
		{"Get of one block", func(r *rand.Rand, key, buf []byte) {
			_, _ = db.Get(benchKey(key, r.Uint64N(8)), buf)
		}},
		{"GetNoFill", func(r *rand.Rand, key, buf []byte) {
			_, _ = cold.GetNoFill(benchKey(key, r.Uint64N(uint64(fewBlocks))), buf)
		}},
		{"Seek", func(r *rand.Rand, key, _ []byte) {
			it := db.Iter(nil)
			it.SeekGE(benchKey(key, r.Uint64N(benchKeys)))
			_ = it.Close()
		}},
		{"Snapshot", func(*rand.Rand, []byte, []byte) { db.Snapshot().Close() }},
		{"Put", func(r *rand.Rand, key, buf []byte) {
			_ = db.Put(benchKey(key, r.Uint64N(benchKeys)), buf[:100], NoSync)
		}},
	}
	for _, op := range ops {
		for _, n := range []int{1, 2, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", op.name, n), func(b *testing.B) {
				if n == 1 {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				}
				b.SetParallelism(max(n/runtime.GOMAXPROCS(0), 1))
				b.RunParallel(func(pb *testing.PB) {
					r := rand.New(rand.NewPCG(2, rand.Uint64()))
					key, buf := make([]byte, 16), make([]byte, 0, 1024)
					for pb.Next() {
						op.do(r, key, buf)
					}
				})
			})
		}
	}
}
