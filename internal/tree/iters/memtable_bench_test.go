package iters_test

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/tree/iters"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// writes is what fits into a write buffer of 64 MiB: 16-byte keys, 100-byte
// values.
const writes = 400_000

// writeOrder is the order in which keys are written.
func writeOrder(name string) []int {
	order := make([]int, writes)
	for i := range order {
		order[i] = i
		if strings.HasPrefix(name, "overwrite5") {
			order[i] = i % (writes / 5)
		}
	}
	if name != "sequential" {
		rand.New(rand.NewSource(1)).Shuffle(writes, func(i, j int) {
			order[i], order[j] = order[j], order[i]
		})
	}
	return order
}

// benchKeys are sixteen digits, or sixteen arbitrary bytes that differ in the last eight alone.
func benchKeys(name string) [][]byte {
	keys := make([][]byte, writes)
	rng := rand.New(rand.NewSource(4))
	for i := range keys {
		if strings.HasSuffix(name, "uuid") {
			keys[i] = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil,
				rng.Uint64()), rng.Uint64())
		} else {
			keys[i] = fmt.Appendf(nil, "%016d", i)
		}
	}
	return keys
}

// fillTable writes in the given order. beside, unless nil, is called every
// 10,000 writes.
func fillTable(b *testing.B, keys [][]byte, order []int,
	beside func(m *memtable.MemTable)) *memtable.MemTable {
	m := memtable.New(memtable.Options{Comparer: base.Bytewise, Size: 64 << 20})
	value := make([]byte, 100)
	var batch []byte
	for i, k := range order {
		batch = batchrepr.AppendEntry(batchrepr.Init(batch), base.DefaultKeyspace, base.KindSet,
			keys[k], value)
		if m.Room(int64(len(batch)), 1) != nil {
			b.Fatal("no room")
		}
		if err := m.Apply(batch, base.SeqNum(i+1)); err != nil {
			b.Fatal(err)
		}
		if beside != nil && i%10_000 == 9_999 {
			beside(m)
		}
	}
	return m
}

// cursorOf opens c, which is closed or new, over m.
func cursorOf(c *iters.Cursor, m *memtable.MemTable) *iters.Cursor {
	c.Reset(base.Bytewise, []base.Source{m.NewSourceAt(writes)}, iters.Options{Seq: writes})
	return c
}

func scanForward(c *iters.Cursor) (n, bytes int) {
	for ok := c.First(); ok; ok = c.Next() {
		n++
		bytes += len(c.Key()) + int(c.Value()[50])
	}
	return n, bytes
}

func scanBackward(c *iters.Cursor) (n, bytes int) {
	for ok := c.Last(); ok; ok = c.Prev() {
		n++
		bytes += len(c.Key()) + int(c.Value()[50])
	}
	return n, bytes
}

// BenchmarkMemtable scans a full, unsealed memtable, whose order is made in
// different ways: for the first iterator ever, opening included ("first"), found
// made by a second one, or made for iterators that were opened all through the
// fill ("beside"). seek opens an iterator and seeks once. ns/key counts the keys
// that a user sees.
func BenchmarkMemtable(b *testing.B) {
	for _, name := range []string{"sequential", "random", "overwrite5", "overwrite5uuid"} {
		order, keys := writeOrder(name), benchKeys(name)
		n := writes
		if strings.HasPrefix(name, "overwrite5") {
			n /= 5
		}
		rng := rand.New(rand.NewSource(2))
		var c iters.Cursor
		seek := func(m *memtable.MemTable) { cursorOf(&c, m).SeekGE(keys[rng.Intn(n)]); c.Close() }
		scan := func(f func(c *iters.Cursor) (n, bytes int)) func(m *memtable.MemTable) {
			return func(m *memtable.MemTable) {
				if got, _ := f(cursorOf(&c, m)); got != n {
					b.Fatal(got)
				}
				c.Close()
			}
		}
		benches := []struct {
			what string
			per  int
			f    func(m *memtable.MemTable)
		}{
			{"forward", n, scan(scanForward)},
			{"backward", n, scan(scanBackward)},
			{"seek", 1, seek},
		}
		for _, bench := range benches {
			run := func(when string, first bool, beside func(m *memtable.MemTable)) {
				b.Run(name+"/"+when+"/"+bench.what, func(b *testing.B) {
					m := fillTable(b, keys, order, beside)
					if !first {
						seek(m)
					}
					for b.Loop() {
						if first {
							b.StopTimer()
							m.Unref()
							m = fillTable(b, keys, order, nil)
							b.StartTimer()
						}
						bench.f(m)
					}
					m.Unref()
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/
						float64(bench.per), "ns/key")
					b.ReportMetric(0, "ns/op")
				})
			}
			if bench.per > 1 {
				run("first", true, nil)
			}
			run("second", false, nil)
			run("beside", false, seek)
		}
	}
}

// BenchmarkMemtableSeekBesideWriter opens an iterator and seeks, over and over,
// while the second half of a memtable is written as fast as may be, and then when
// nothing is written. put-ns is what a write cost meanwhile, and alone.
func BenchmarkMemtableSeekBesideWriter(b *testing.B) {
	for _, name := range []string{"random", "overwrite5", "overwrite5uuid"} {
		order, keys := writeOrder(name), benchKeys(name)
		rng := rand.New(rand.NewSource(2))
		var c iters.Cursor
		var batch []byte
		value := make([]byte, 100)
		write := func(m *memtable.MemTable, from, to int) time.Duration {
			start := time.Now()
			for i, k := range order[from:to] {
				batch = batchrepr.AppendEntry(batchrepr.Init(batch), base.DefaultKeyspace,
					base.KindSet, keys[k], value)
				if err := m.Apply(batch, base.SeqNum(from+i+1)); err != nil {
					b.Error(err)
				}
			}
			return time.Since(start)
		}
		seeks := func(m *memtable.MemTable, until func(n int) bool) (perSeek, p99 float64) {
			var each []float64
			for n := 0; !until(n); n++ {
				key := keys[order[rng.Intn(writes/2)]]
				start := time.Now()
				cursorOf(&c, m).SeekGE(key)
				c.Close()
				each = append(each, float64(time.Since(start).Nanoseconds()))
			}
			sum := 0.0
			for _, ns := range each {
				sum += ns
			}
			slices.Sort(each)
			return sum / float64(len(each)), each[len(each)*99/100]
		}
		b.Run(name, func(b *testing.B) {
			var beside, besideTail, quiet, quietTail, put, alone float64
			for b.Loop() {
				m := memtable.New(memtable.Options{Comparer: base.Bytewise, Size: 64 << 20})
				alone += float64(write(m, 0, writes/2).Nanoseconds()) / (writes / 2)
				seeks(m, func(n int) bool { return n == 2000 })
				mean, tail := seeks(m, func(n int) bool { return n == 20_000 })
				quiet, quietTail = quiet+mean, quietTail+tail
				done := make(chan time.Duration, 1)
				go func() { done <- write(m, writes/2, writes) }()
				mean, tail = seeks(m, func(int) bool { return len(done) > 0 })
				beside, besideTail = beside+mean, besideTail+tail
				put += float64((<-done).Nanoseconds()) / (writes / 2)
				m.Unref()
			}
			for unit, sum := range map[string]float64{
				"quiet-ns": quiet, "quiet-p99-ns": quietTail, "beside-ns": beside,
				"beside-p99-ns": besideTail, "put-ns": put, "put-alone-ns": alone,
			} {
				b.ReportMetric(sum/float64(b.N), unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
