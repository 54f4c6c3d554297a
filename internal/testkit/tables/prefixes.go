package tables

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/model"
)

// prefixes asks tables for ranges: a prefix with entries is never denied, and most prefixes without
// entries are.
func (s *suite) prefixes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 11))
	denied, absent := 0, 0
	for round := range 60 {
		for _, c := range comparers {
			es := Random(rng, c, 1+rng.IntN(400))
			o := RandomOptions(rng, c)
			n := []int{1, 3, 6}[rng.IntN(3)]
			o.PrefixLength, o.BloomBits, o.BlockSize = n, 10*rng.IntN(2), max(o.BlockSize, 64)
			b, meta := s.write(t, o, es)
			withCache(1<<20, func(ca *cache.Cache) {
				r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
				defer r.Close()
				want := 0
				if c == base.Bytewise {
					want = n * min(o.BloomBits, 1)
				}
				if got := r.Props().PrefixLength; got != want || meta.PrefixLength != want {
					t.Fatalf("round %d, %s: PrefixLength is %d in the file, %d in Meta, want %d",
						round, c.Name, got, meta.PrefixLength, want)
				}
				for range 100 {
					lower, upper := probeRange(rng, es, n)
					got, here := r.MayContainRange(lower, upper), holds(c, es, lower, upper)
					if here && !got {
						t.Fatalf("round %d, %s: [%q, %q) is denied, with prefixes of %d bytes",
							round, c.Name, lower, upper, n)
					}
					if want > 0 && len(lower) >= n && !holds(c, es, lower[:n], after(lower[:n])) &&
						bytes.HasPrefix(upper, lower[:n]) {
						absent++
						if !got {
							denied++
						}
					}
				}
			})
		}
	}
	if absent < 30 || denied < absent*8/10 {
		t.Errorf("%d of %d ranges within absent prefixes were denied", denied, absent)
	}
}

// probeRange is a range near the keys, usually within a prefix of n bytes.
func probeRange(rng *rand.Rand, es []model.Entry, n int) (lower, upper []byte) {
	lower = bytes.Clone(es[rng.IntN(len(es))].Key)
	if len(lower) > 0 && rng.IntN(2) == 0 {
		lower[rng.IntN(len(lower))] = byte(rng.Uint32())
	}
	switch rng.IntN(4) {
	case 0:
		return lower, nil
	case 1:
		return lower, after(lower[:min(n, len(lower))])
	case 2:
		return lower, append(bytes.Clone(lower), byte(rng.Uint32()))
	}
	return lower, es[rng.IntN(len(es))].Key
}

// after is the first key after those with prefix p, nil if there is none.
func after(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			return append(bytes.Clone(p[:i]), p[i]+1)
		}
	}
	return nil
}

func holds(c *base.Comparer, es []model.Entry, lower, upper []byte) bool {
	for _, e := range es {
		if c.Cmp(e.Key, lower) >= 0 && (upper == nil || c.Cmp(e.Key, upper) < 0) {
			return true
		}
	}
	return false
}

// Parts asks tables whose filters are cut into parts: prefixes and keys go on from one part to
// the next.
func Parts(t *testing.T, create func(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer,
	open func(f vfs.ReadFile, e Env) (sstable.Reader, error)) {
	s := &suite{Format: Format{New: create, Open: open}}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	denied := 0
	for round := range 40 {
		var es []model.Entry
		groups := 1 + rng.IntN(40)
		for len(es) < 600 {
			key := fmt.Appendf(nil, "g%02d-%03d", 2*rng.IntN(groups), rng.IntN(300))
			for range 1 + 8*(rng.IntN(20)/19) { // some keys go on over several parts
				es = append(es, model.Set(string(key), base.SeqNum(rng.IntN(1<<20)), string(key)))
			}
		}
		es = model.SortUnique(base.Bytewise, es)
		o := usual(base.Bytewise)
		o.BlockSize, o.PrefixLength, o.Compression = 64<<rng.IntN(3), 3, sstable.NoCompression
		b, _ := s.write(t, o, es)
		for _, size := range []int64{0, 1 << 20} {
			withCache(size, func(ca *cache.Cache) {
				r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: base.Bytewise})
				defer r.Close()
				for g := range 2 * groups {
					for n := range 20 {
						lower, upper := fmt.Appendf(nil, "g%02d",
							g), after(fmt.Appendf(nil, "g%02d", g))
						if n > 0 {
							at := rng.IntN(300)
							lower, upper = fmt.Appendf(nil, "g%02d-%03d", g, at), fmt.Appendf(nil,
								"g%02d-%03d", g, at+rng.IntN(100))
						}
						got := r.MayContainRange(lower, upper)
						if holds(base.Bytewise, es, lower, upper) && !got {
							t.Fatalf("round %d: [%q, %q) is denied", round, lower, upper)
						}
						if !got {
							denied++
						}
					}
				}
			})
		}
	}
	if denied == 0 {
		t.Error("no range was denied")
	}
}
