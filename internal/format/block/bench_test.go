package block

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
)

// benchRows is a 4 KiB block of 16-byte keys and 100-byte values that compress
// to half.
func benchRows(b *testing.B, seed uint64) (rows []byte, keys []string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var es []model.Entry
	for i := range 34 {
		k := fmt.Sprintf("%016d", seed*10000+uint64(i)*3)
		keys = append(keys, k)
		es = append(es, model.Set(k, base.SeqNum(rng.IntN(1<<20)), string(compressible(rng, 100))))
	}
	return rowsOf(b, es, 16), keys
}

func BenchmarkBuildView(b *testing.B) {
	rows, keys := benchRows(b, 1)
	for _, bc := range []struct {
		name string
		cols Columns
	}{{"point", PointLookup}, {"scan", 0}} {
		b.Run(bc.name, func(b *testing.B) {
			mem := aligned(16 << 10)
			for b.Loop() {
				s, err := Measure(rows, DefaultMaxDecoded)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := BuildView(mem, rows, s, base.Bytewise, bc.cols); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/entry")
		})
	}
}

func BenchmarkSearchRows(b *testing.B) {
	rows, keys := benchRows(b, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	var buf Buffer
	defer buf.Free()
	for b.Loop() {
		key := keys[int(rng.Uint32())%len(keys)]
		s, err := SearchRows(rows, DefaultMaxDecoded, base.Bytewise,
			base.MakeLookup(base.Bytewise, []byte(key), base.MaxSeqNum), &buf)
		if err != nil || !s.Found {
			b.Fatal("missing", err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/entry")
}

func BenchmarkMeasure(b *testing.B) {
	rows, keys := benchRows(b, 1)
	for b.Loop() {
		Measure(rows, DefaultMaxDecoded)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/entry")
}

func BenchmarkViewGet(b *testing.B) {
	for _, blocks := range []int{1, 1 << 14} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			const stride = 6 << 10
			mem := aligned(blocks * stride)
			offheap.AdviseHuge(mem)
			keys := make([][]string, blocks)
			for i := range blocks {
				rows, k := benchRows(b, uint64(i+1))
				s, _ := Measure(rows, DefaultMaxDecoded)
				if _, err := BuildView(mem[i*stride:(i+1)*stride], rows, s, base.Bytewise,
					PointLookup); err != nil {
					b.Fatal(err)
				}
				keys[i] = k
			}
			rng := rand.New(rand.NewPCG(1, 2))
			key := make([]byte, 16)
			dst := make([]byte, 0, 128)
			for b.Loop() {
				i := int(rng.Uint32()) & (blocks - 1)
				// The key is computed so that finding it costs no cache miss.
				n := (i+1)*10000 + rng.IntN(34)*3
				for j := 15; j >= 0; j-- {
					key[j] = byte('0' + n%10)
					n /= 10
				}
				v := OpenView(mem[i*stride : (i+1)*stride])
				at := v.Get(base.Bytewise, base.MakeLookup(base.Bytewise, key, base.MaxSeqNum))
				if at < 0 {
					b.Fatal("missing")
				}
				dst = append(dst[:0], v.Value(at)...)
			}
			_ = keys
		})
	}
}

func BenchmarkViewScan(b *testing.B) {
	rows, keys := benchRows(b, 1)
	s, _ := Measure(rows, DefaultMaxDecoded)
	mem := aligned(s.ViewSize(PointLookup))
	if _, err := BuildView(mem, rows, s, base.Bytewise, PointLookup); err != nil {
		b.Fatal(err)
	}
	sum := 0
	var e base.Chunk
	for b.Loop() {
		v := OpenView(mem)
		v.Chunk(&e)
		for i := range e.Len() {
			sum += len(e.Key(i)) + int(e.Value(i)[0])
		}
	}
	_ = sum
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/entry")
}

func BenchmarkRowBuilder(b *testing.B) {
	_, keys := benchRows(b, 1)
	value := compressible(rand.New(rand.NewPCG(1, 1)), 100)
	rb := RowBuilder{Interval: 16}
	ks := make([][]byte, len(keys))
	for i, k := range keys {
		ks[i] = []byte(k)
	}
	for b.Loop() {
		for i, k := range ks {
			if err := rb.Add(k, base.MakeTrailer(base.SeqNum(i), 1), value); err != nil {
				b.Fatal(err)
			}
		}
		rb.Finish()
		rb.Reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/entry")
}

// The snappy libraries side by side, on the block that tables really hold.
func BenchmarkSnappy(b *testing.B) {
	rows, _ := benchRows(b, 1)
	dst := make([]byte, 2*len(rows))
	packed := snappy.Encode(nil, rows)
	for name, f := range map[string]func(){
		"encode/golang":     func() { snappy.Encode(dst[:cap(dst)], rows) },
		"encode/s2":         func() { s2.EncodeSnappy(dst[:cap(dst)], rows) },
		"encode/s2better":   func() { s2.EncodeSnappyBetter(dst[:cap(dst)], rows) },
		"decode/golang":     func() { snappy.Decode(dst[:cap(dst)], packed) },
		"decode/s2":         func() { s2.Decode(dst[:cap(dst)], packed) },
		"size/golang/s2":    nil,
		"crc32c/compressed": func() { base.CRC(packed) },
	} {
		if f == nil {
			continue
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(rows)))
			for b.Loop() {
				f()
			}
		})
	}
	b.Logf("%d bytes: golang %d, s2 %d, s2 better %d", len(rows), len(packed),
		len(s2.EncodeSnappy(nil, rows)), len(s2.EncodeSnappyBetter(nil, rows)))
}
