package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

const benchEntries = 1 << 20

func benchKeys(random bool) [][]byte {
	keys := make([][]byte, benchEntries)
	rng := rand.New(rand.NewSource(1))
	for i := range keys {
		if random {
			keys[i] = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil,
				rng.Uint64()), rng.Uint64())
		} else {
			keys[i] = fmt.Appendf(nil, "%016d", i)
		}
	}
	return keys
}

func fill(keys [][]byte, value []byte, ordered bool) *MemTable {
	m := New(Options{Comparer: base.Bytewise, Size: 160 << 20,
		EntrySize: 132, Large: true, Ordered: ordered})
	batch := batchrepr.Init(nil)
	for i, k := range keys {
		batch = batchrepr.AppendEntry(batchrepr.Init(batch), base.DefaultKeyspace, base.KindSet, k,
			value)
		if m.Room(int64(len(batch)), 1) != nil {
			panic("no room")
		}
		if err := m.Apply(batch, base.SeqNum(i+1)); err != nil {
			panic(err)
		}
	}
	return m
}

func perEntry(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
}

func BenchmarkInsert(b *testing.B) {
	value := make([]byte, 100)
	for _, name := range []string{"random", "sequential", "ordered"} {
		keys := benchKeys(name != "sequential")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m := fill(keys, value, name == "ordered")
				b.StopTimer()
				m.Unref()
				b.StartTimer()
			}
			perEntry(b, len(keys))
		})
	}
}

func BenchmarkInsertBatch100(b *testing.B) {
	keys, value := benchKeys(true), make([]byte, 100)
	var batches [][]byte
	for i := 0; i < len(keys); i += 100 {
		batch := batchrepr.Init(nil)
		for _, k := range keys[i:min(i+100, len(keys))] {
			batch = batchrepr.AppendEntry(batch, base.DefaultKeyspace, base.KindSet, k, value)
		}
		batches = append(batches, batch)
	}
	for b.Loop() {
		m := New(Options{Comparer: base.Bytewise, Size: 160 << 20, EntrySize: 132, Large: true})
		for i, batch := range batches {
			if err := m.Apply(batch, base.SeqNum(i*100+1)); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		m.Unref()
		b.StartTimer()
	}
	perEntry(b, len(keys))
}

func BenchmarkGet(b *testing.B) {
	keys := benchKeys(true)
	m := fill(keys, make([]byte, 100), false)
	defer m.Unref()
	for _, name := range []string{"hit", "miss"} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewSource(2))
			var key [16]byte
			sum := 0
			for b.Loop() {
				copy(key[:], keys[rng.Intn(len(keys))])
				if name == "miss" {
					key[15] ^= 1
				}
				v, _, ok := m.Get(MakeLookup(m.cmp, key[:], base.MaxSeqNum))
				if ok != (name == "hit") {
					b.Fatal("wrong answer")
				}
				if ok {
					sum += int(v[50])
				}
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	for _, name := range []string{"random", "sequential", "decimal", "live"} {
		keys := benchKeys(name == "random" || name == "live")
		if name == "decimal" {
			rand.New(rand.NewSource(3)).Shuffle(len(keys), func(i, j int) {
				keys[i], keys[j] = keys[j], keys[i]
			})
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				m := fill(keys, make([]byte, 100), name == "live")
				m.order.bg.Wait()
				b.StartTimer()
				m.Seal()
				b.StopTimer()
				m.Unref()
				b.StartTimer()
			}
			perEntry(b, len(keys))
		})
	}
}

func BenchmarkFirstSource(b *testing.B) {
	keys := benchKeys(true)
	for b.Loop() {
		b.StopTimer()
		m := fill(keys, make([]byte, 100), false)
		b.StartTimer()
		s := m.NewSource()
		b.StopTimer()
		s.Close()
		m.Unref()
		b.StartTimer()
	}
	perEntry(b, len(keys))
}

func BenchmarkScan(b *testing.B) {
	for _, name := range []string{"sealed", "live", "sequential", "reverse"} {
		b.Run(name, func(b *testing.B) {
			keys := benchKeys(name != "sequential")
			m := fill(keys, make([]byte, 100), name == "live")
			defer m.Unref()
			if name != "live" {
				m.Seal()
			}
			for b.Loop() {
				s := m.NewSource()
				var e base.Chunk
				n := 0
				start, move := s.First, s.Next
				if name == "reverse" {
					start, move = s.Last, s.Prev
				}
				i, err := start(&e)
				for ok := i >= 0; ok; ok, err = move(&e) {
					n += e.Len()
				}
				s.Close()
				if n != len(keys) || err != nil {
					b.Fatal(n, err)
				}
			}
			perEntry(b, len(keys))
		})
	}
}

func BenchmarkSeek(b *testing.B) {
	for _, name := range []string{"sealed", "live"} {
		b.Run(name, func(b *testing.B) {
			keys := benchKeys(true)
			m := fill(keys, make([]byte, 100), name == "live")
			defer m.Unref()
			if name == "sealed" {
				m.Seal()
			}
			s := m.NewSource()
			defer s.Close()
			rng := rand.New(rand.NewSource(2))
			var e base.Chunk
			for b.Loop() {
				if i, err := s.SeekGE(keys[rng.Intn(len(keys))], base.MaxTrailer, &e); i != 0 {
					b.Fatal("not found", err)
				}
			}
		})
	}
}

// BenchmarkSourceBesideWrites opens a source after every few writes.
func BenchmarkSourceBesideWrites(b *testing.B) {
	keys := benchKeys(true)
	const first = 200000
	for _, each := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			m := fill(keys[:first], make([]byte, 100), true)
			defer func() { m.Unref() }()
			var e base.Chunk
			i := first
			for b.Loop() {
				if m.Room(int64(200*each), each) != nil || i+each > len(keys) {
					b.StopTimer()
					m.Unref()
					m = fill(keys[:first], make([]byte, 100), true)
					i = first
					b.StartTimer()
				}
				for range each {
					m.Add(base.SeqNum(i+1), base.KindSet, keys[i], nil)
					i++
				}
				s := m.NewSourceAt(base.MaxSeqNum)
				if _, err := s.SeekGE(keys[i/2], base.MaxTrailer, &e); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// BenchmarkTreeInsert doubles a tree of 200,000 entries.
func BenchmarkTreeInsert(b *testing.B) {
	const n = 200000
	keys, value := benchKeys(true), make([]byte, 100)
	for b.Loop() {
		b.StopTimer()
		m := fill(keys[:n], value, false)
		m.NewSource().Close()
		m.order.on.Store(false)
		for i, k := range keys[n : 2*n] {
			if err := m.Add(base.SeqNum(n+i+1), base.KindSet, k, value); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := m.order.complete(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		m.Unref()
		b.StartTimer()
	}
	perEntry(b, n)
}
