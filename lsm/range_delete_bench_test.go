package lsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// scanKeys is how many keys the benchmarks of range deletes write, in random order.
const scanKeys = 1 << 18

func scanKey(i int) []byte { return fmt.Appendf(nil, "%016d", i) }

func openRangeBench(b *testing.B, flush bool) *DB {
	b.Helper()
	db, err := Open(b.TempDir(), &Options{FS: vfs.Default, Format: FormatNative,
		WriteBufferSize: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	value := make([]byte, 20)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(scanKeys) {
		if err := db.Put(scanKey(i), value, NoSync); err != nil {
			b.Fatal(err)
		}
	}
	if flush {
		if err := db.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

// BenchmarkDeleteRange deletes disjoint ranges of 8 keys in random order, 10,000 in each memtable.
func BenchmarkDeleteRange(b *testing.B) {
	db := openRangeBench(b, true)
	order := rand.New(rand.NewPCG(3, 4)).Perm(scanKeys / 8)
	starts, limits := make([][]byte, len(order)), make([][]byte, len(order))
	for i, n := range order {
		starts[i], limits[i] = scanKey(8*n), scanKey(8*n+8)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%10_000 == 0 {
			b.StopTimer()
			if err := db.Flush(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		n := i % len(order)
		if err := db.DeleteRange(starts[n], limits[n], NoSync); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkScanDeleted seeks to the start of a range of deleted keys and finds the one key behind
// it. The range and the tombstone are in one memtable, or the range is in a table.
func BenchmarkScanDeleted(b *testing.B) {
	for _, flush := range []bool{false, true} {
		for _, width := range []int{1, 1000, scanKeys - 1} {
			b.Run(fmt.Sprintf("table=%v/%d", flush, width), func(b *testing.B) {
				db := openRangeBench(b, flush)
				db.PauseCompaction()
				if err := db.DeleteRange(scanKey(0), scanKey(width), NoSync); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					it := db.Iter(nil)
					if !it.SeekGE(scanKey(0)) || string(it.Key()) != string(scanKey(width)) {
						b.Fatalf("at %q", it.Key())
					}
					if err := it.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
