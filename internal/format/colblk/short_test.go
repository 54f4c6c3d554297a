package colblk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/loamdb/loam/internal/workload"
)

// corpora are values as users have them.
func corpora() map[string][][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	all := map[string][][]byte{}
	vals := workload.NewValueData(0.5, 1000).Values()
	for range 200 {
		all["db_bench 100"] = append(all["db_bench 100"], bytes.Clone(vals.Next(100)))
		all["db_bench 400"] = append(all["db_bench 400"], bytes.Clone(vals.Next(400)))
		all["db_bench 1000"] = append(all["db_bench 1000"], bytes.Clone(vals.Next(1000)))
		b, _ := json.Marshal(map[string]any{
			"id": rng.IntN(1e9), "name": fmt.Sprintf("user-%d", rng.IntN(1e6)),
			"email":      fmt.Sprintf("u%d@example.com", rng.IntN(1e6)),
			"created_at": "2024-01-02T03:04:05Z", "updated_at": "2024-01-02T03:04:06Z",
			"active": rng.IntN(2) == 0,
			"address": map[string]any{"street": fmt.Sprintf("%d Main Street", rng.IntN(999)),
				"city": "Springfield", "zip": rng.IntN(99999)},
			"tags": []string{"alpha", "beta", "gamma-delta", "beta-gamma"},
		})
		all["json"] = append(all["json"], b)
		var rows []map[string]any
		for range 5 + 10*rng.IntN(2) {
			rows = append(rows, map[string]any{"id": rng.IntN(1e6), "quantity": rng.IntN(100),
				"price": rng.IntN(1e5), "note": "no note"})
		}
		b, _ = json.Marshal(rows)
		all["json rows"] = append(all["json rows"], b)
		random := make([]byte, 100)
		for i := range random {
			random[i] = byte(rng.Uint32())
		}
		all["random"] = append(all["random"], random)
		all["zeros"] = append(all["zeros"], make([]byte, 900))
		var ints []byte
		for i := range 40 {
			ints = append(ints, byte(rng.IntN(256)), byte(i), 0, 0)
		}
		all["u32"] = append(all["u32"], ints)
	}
	return all
}

// TestShortRatio: values are packed no worse than snappy does.
func TestShortRatio(t *testing.T) {
	var table shortTable
	for name, values := range corpora() {
		raw, short, snap := 0, 0, 0
		for _, v := range values {
			raw += len(v)
			n := table.packShort(make([]byte, len(v)), v)
			if n == 0 {
				n = len(v)
			}
			short += n
			snap += min(len(s2.EncodeSnappy(nil, v)), len(v))
		}
		if short > snap+snap/50 {
			t.Errorf("%s: %d bytes, snappy takes %d", name, short, snap)
		}
		t.Logf("%s: raw %d, short %.1f%%, snappy %.1f%%", name, raw/len(values),
			100*float64(short)/float64(raw), 100*float64(snap)/float64(raw))
	}
}

// TestDamagedShort changes every byte of packed values: no byte is written past the scratch space,
// and no byte is read past the value.
func TestDamagedShort(t *testing.T) {
	guard := newGuard(t, 1<<12)
	var table shortTable
	const canary = 1 << 10
	for name, values := range corpora() {
		for _, v := range values[:4] {
			if len(v) > maxShort {
				continue
			}
			p := make([]byte, len(v))
			p = p[:table.packShort(p, v)]
			try := func(p []byte) {
				dst := bytes.Repeat([]byte{0xa5}, len(v)+wideCopy+canary)
				if unpackShort(dst[:len(v)], guard(p), nil, len(p)) && len(p) == 0 {
					t.Fatalf("%s: nothing unpacks to %d bytes", name, len(v))
				}
				if !bytes.Equal(dst[len(v)+wideCopy:], bytes.Repeat([]byte{0xa5}, canary)) {
					t.Fatalf("%s: % x writes behind its %d bytes", name, p, len(v))
				}
			}
			for i := range p {
				try(p[:i])
				for m := range 256 {
					p[i] ^= byte(m)
					try(p)
					p[i] ^= byte(m)
				}
			}
			try(bytes.Repeat(append([]byte{0xf0, 255, 200}, v...), 9)[:900])
		}
	}
}

func BenchmarkShort(b *testing.B) {
	var table shortTable
	for name, values := range corpora() {
		dst, out := make([]byte, 2048), make([]byte, 2048)
		b.Run("pack/"+name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				table.packShort(dst, values[i%len(values)])
				i++
			}
		})
		b.Run("snappy/"+name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				s2.EncodeSnappy(dst, values[i%len(values)])
				i++
			}
		})
		var short, snap [][]byte
		for _, v := range values {
			if n := table.packShort(dst, v); n > 0 {
				short = append(short, append(bytes.Clone(dst[:n]), make([]byte, 16)...))
			}
			snap = append(snap, s2.EncodeSnappy(nil, v))
		}
		if len(short) < len(values) {
			continue
		}
		b.Run("unpack/"+name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				p := short[i%len(short)]
				unpackShort(out[:len(values[i%len(short)])], p[:len(p)-16], nil, len(p))
				i++
			}
		})
		b.Run("unsnappy/"+name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				s2.Decode(out, snap[i%len(snap)])
				i++
			}
		})
	}
}
