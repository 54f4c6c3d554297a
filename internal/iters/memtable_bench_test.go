package iters_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/iters"
	"github.com/loamdb/loam/internal/memtable"
)

// writes is what fits into a write buffer of 64 MiB: 16-byte keys, 100-byte
// values.
const writes = 400_000

// writeOrder is the order in which keys are written.
func writeOrder(name string) []int {
	order := make([]int, writes)
	for i := range order {
		order[i] = i
		if name == "overwrite5" {
			order[i] = i % (writes / 5)
		}
	}
	if name != "sequential" {
		rand.New(rand.NewSource(1)).Shuffle(writes, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}

func benchKey(dst []byte, i int) []byte { return fmt.Appendf(dst, "%016d", i) }

// fillTable writes in the given order. beside, unless nil, is called every
// 10,000 writes.
func fillTable(b *testing.B, order []int, beside func(m *memtable.Table, last base.SeqNum)) *memtable.Table {
	m := memtable.New(memtable.Options{Comparer: base.Bytewise, Size: 64 << 20})
	value := make([]byte, 100)
	var batch, key []byte
	for i, k := range order {
		key = benchKey(key[:0], k)
		batch = batchrepr.AppendPut(batchrepr.Init(batch), key, value)
		if !m.Room(int64(len(batch)), 1) {
			b.Fatal("no room")
		}
		if err := m.Apply(batch, base.SeqNum(i+1)); err != nil {
			b.Fatal(err)
		}
		if beside != nil && i%10_000 == 9_999 {
			beside(m, base.SeqNum(i+1))
		}
	}
	return m
}

func open(m *memtable.Table) *iters.Cursor {
	return iters.NewCursor(base.Bytewise, []base.Source{m.NewSourceAt(writes)}, writes, nil, nil)
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

// seekSome seeks and opens an iterator for each.
func seekSome(b *testing.B, m *memtable.Table, rng *rand.Rand, keys, n int) {
	var key []byte
	for range n {
		key = benchKey(key[:0], rng.Intn(keys))
		c := open(m)
		if !c.SeekGE(key) {
			b.Fatal("not found")
		}
		c.Close()
	}
}

// BenchmarkMemtable scans a full, unsealed memtable, whose order is made in
// different ways: for the first iterator ever, opening included ("first"), found
// made by a second one, or made for iterators that were opened all through the
// fill ("beside"). ns/key counts the keys that a user sees.
func BenchmarkMemtable(b *testing.B) {
	for _, name := range []string{"sequential", "random", "overwrite5"} {
		order := writeOrder(name)
		keys := writes
		if name == "overwrite5" {
			keys = writes / 5
		}
		for _, when := range []string{"first", "second", "beside"} {
			var beside func(m *memtable.Table, last base.SeqNum)
			if when == "beside" {
				rng := rand.New(rand.NewSource(2))
				beside = func(m *memtable.Table, _ base.SeqNum) {
					c := open(m)
					c.SeekGE(benchKey(nil, rng.Intn(keys)))
					c.Close()
				}
			}
			run := func(what string, per int, f func(m *memtable.Table)) {
				b.Run(name+"/"+when+"/"+what, func(b *testing.B) {
					m := fillTable(b, order, beside)
					if when == "second" {
						open(m).Close()
					}
					for b.Loop() {
						if when == "first" {
							b.StopTimer()
							m.Unref()
							m = fillTable(b, order, nil)
							b.StartTimer()
						}
						f(m)
					}
					m.Unref()
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(per), "ns/key")
					b.ReportMetric(0, "ns/op")
				})
			}
			scan := func(f func(c *iters.Cursor) (n, bytes int)) func(m *memtable.Table) {
				return func(m *memtable.Table) {
					c := open(m)
					if n, _ := f(c); n != keys {
						b.Fatal(n)
					}
					c.Close()
				}
			}
			run("forward", keys, scan(scanForward))
			run("backward", keys, scan(scanBackward))
			if when != "first" {
				rng := rand.New(rand.NewSource(3))
				run("seek", 1000, func(m *memtable.Table) { seekSome(b, m, rng, keys, 1000) })
			}
		}
	}
}
