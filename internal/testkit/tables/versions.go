package tables

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// versions are what Get and then GetNext, until it finds no more, must find.
func versions(c *base.Comparer, es []model.Entry, key []byte, seq base.SeqNum) (out []model.Entry) {
	for _, e := range es {
		if c.Cmp(e.Key, key) == 0 && e.Trailer.Seq() <= seq {
			out = append(out, e)
		}
	}
	return out
}

// walkVersions compares every version of a key with the expected one. With MemoryOnly, entries
// that are not in memory are read again without it; it reports how
// often. It returns the first error.
func walkVersions(t *testing.T, r sstable.Reader, l base.Lookup, flags sstable.ReadFlags,
	want []model.Entry) (blocked int, err error) {
	t.Helper()
	const before = "dst:"
	get := r.Get
	for i := 0; ; i++ {
		got, hit, found, err := get(l, flags, []byte(before))
		if errors.Is(err, base.ErrWouldBlock) && flags&sstable.MemoryOnly != 0 {
			if blocked++; found || string(got) != before {
				t.Fatalf("%q@%d: version %d is found %v, %q beside %v", l.Key(), l.Seq, i, found,
					got, err)
			}
			if i == 0 {
				got, hit, found, err = r.GetAt(hit.Position, l, flags&^sstable.MemoryOnly,
					[]byte(before))
			} else {
				got, hit, found, err = get(l, flags&^sstable.MemoryOnly, []byte(before))
			}
		}
		if err != nil {
			return blocked, err
		}
		if found != (i < len(want)) {
			t.Fatalf("flags %d, %q@%d: version %d of %d is found %v", flags, l.Key(), l.Seq, i,
				len(want), found)
		}
		if !found {
			if string(got) != before {
				t.Fatalf("%q@%d: %q for no entry", l.Key(), l.Seq, got)
			}
			return blocked, nil
		}
		value := []byte(before)
		if want[i].Trailer.Kind() == base.KindSet {
			value = append(value, want[i].Value...)
		}
		if hit.Trailer != want[i].Trailer || !bytes.Equal(got, value) {
			t.Fatalf("flags %d, %q@%d: version %d is %q@%d, want %v", flags, l.Key(), l.Seq, i, got,
				hit.Trailer.Seq(), want[i])
		}
		get = func(l base.Lookup, flags sstable.ReadFlags, dst []byte) ([]byte, sstable.Hit, bool,
			error) {
			return r.GetNext(hit, l, flags, dst)
		}
	}
}

// manyVersions makes entries of few keys with many versions, deletions among
// them, some with the sequence number of another.
func manyVersions(rng *rand.Rand, c *base.Comparer) []model.Entry {
	var es []model.Entry
	for k := range 1 + rng.IntN(12) {
		for range 1 + rng.IntN(150) {
			// Fold takes both cases for one key.
			e := model.Entry{Key: fmt.Appendf(nil, "%cey%02d", "kK"[rng.IntN(2)], k),
				Trailer: base.MakeTrailer(base.SeqNum(rng.IntN(400)), base.KindSet)}
			if rng.IntN(4) == 0 {
				e.Trailer = base.MakeTrailer(e.Trailer.Seq(), base.KindDelete)
			} else {
				e.Value = fmt.Appendf(nil, "%d.%0*d", e.Trailer.Seq(), rng.IntN(60), k)
			}
			es = append(es, e)
		}
	}
	return model.SortUnique(c, es)
}

// olderVersions checks GetNext: within blocks and across them, under every flag,
// with a cache that holds all of the table, a part, or nothing.
func (s *suite) olderVersions(t *testing.T) {
	rounds, blocked := seed.Scale(12, 12, 40), 0
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 11))
		c := comparers[round%len(comparers)]
		es := manyVersions(rng, c)
		o := RandomOptions(rng, c)
		o.BlockSize = []int{1, 64, 256, 4096}[rng.IntN(4)]
		b, _ := s.write(t, o, es)
		withCache([]int64{1 << 20, 16 << 10}[rng.IntN(2)], func(ca *cache.Cache) {
			if rng.IntN(4) == 0 {
				ca = nil
			}
			r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
			for range 40 {
				key, seq := es[rng.IntN(len(es))].Key, base.SeqNum(rng.IntN(410))
				if rng.IntN(10) == 0 {
					key, seq = []byte("key"), base.MaxSeqNum
				}
				want := versions(c, es, key, seq)
				for _, flags := range append([]sstable.ReadFlags{sstable.MemoryOnly},
					flagSets[rng.IntN(len(flagSets))]) {
					n, err := walkVersions(t, r, base.MakeLookup(c, key, seq), flags, want)
					if err != nil {
						t.Fatal(err)
					}
					blocked += n
				}
			}
			if r.RangeDels() != nil {
				t.Error("range tombstones in a table to which none were added")
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		if t.Failed() {
			t.Fatalf("round %d: comparer %s, options %+v, %d entries", round, c.Name, o, len(es))
		}
	}
	if blocked == 0 {
		t.Error("no version was out of memory")
	}
}
