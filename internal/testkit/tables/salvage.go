package tables

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// salvaged is what Salvage hands out of a file.
func (s *suite) salvaged(f *memFile, env Env) (es []model.Entry, lost []sstable.Lost, err error) {
	err = s.Salvage(f, env, sstable.Salvage{
		Add: func(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
			value, err := colblk.AppendUnpacked(nil, value, codec, nil, 1<<32)
			es = append(es, model.Entry{Key: append([]byte(nil), key...), Trailer: t, Value: value})
			return err
		},
		Lost: func(l sstable.Lost) { lost = append(lost, l) },
	})
	return es, lost, err
}

// salvage checks that Salvage hands out every entry of a whole table, and of a
// damaged one nothing but entries of the table in their order, and that it says
// where the blocks of the missing ones lay.
func (s *suite) salvage(t *testing.T) {
	rounds := seed.Scale(16, 16, 60)
	rng := rand.New(rand.NewPCG(8, 8))
	for round := range rounds {
		c := comparers[round%len(comparers)]
		es := Random(rng, c, 1+rng.IntN(300))
		o := RandomOptions(rng, c)
		o.BlockSize = []int{64, 512, 4096}[rng.IntN(3)]
		whole, _ := s.write(t, o, es)
		env := Env{Name: "000007.ldb", Comparer: c}
		got, lost, err := s.salvaged(&memFile{b: whole}, env)
		if err != nil || len(got) != len(es) || len(lost) != 0 {
			t.Fatalf("round %d: %d of %d entries of a whole table, lost %v: %v", round, len(got),
				len(es), lost, err)
		}
		r := s.open(t, whole, env)
		some := 0
		for range 8 {
			b := append([]byte(nil), whole...)
			for range 1 + rng.IntN(3) {
				b = damage(rng, b)
			}
			got, lost, err := s.salvaged(&memFile{b: b}, env)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			next := 0
			missing := func(e model.Entry) {
				off := int64(r.OffsetOf(e.Key, e.Trailer))
				for _, l := range lost {
					if l.Offset <= off && off < l.Offset+l.Length || off >= int64(len(b)) {
						return
					}
				}
				t.Fatalf("round %d: %v, of the block at %d, is missing, and lost is only %+v",
					round, e, off, lost)
			}
			for _, e := range got {
				for ; next < len(es) && c.CompareInternal(es[next].Key, es[next].Trailer, e.Key,
					e.Trailer) < 0; next++ {
					missing(es[next])
				}
				if next == len(es) || es[next].String() != e.String() ||
					string(es[next].Value) != string(e.Value) {
					t.Fatalf("round %d: %v is not an entry of the table, or out of order", round, e)
				}
				next++
			}
			for ; next < len(es); next++ {
				missing(es[next])
			}
			some += len(got)
			for _, l := range lost {
				if l.Reason == "" || l.Offset < 0 || l.Length < 0 {
					t.Errorf("does not say what or where: %+v", l)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if len(es) > 100 && some == 0 {
			t.Errorf("round %d: nothing was readable of 8 damaged tables of %d entries", round,
				len(es))
		}
	}
	s.salvageFailures(t)
}

// damage flips a bit, cuts the end off, or zeroes a part.
func damage(rng *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at := rng.IntN(len(b))
	switch rng.IntN(3) {
	case 0:
		b[at] ^= 1 << rng.IntN(8)
	case 1:
		b = b[:max(at, len(b)-400)] // the index, mostly
	case 2:
		clear(b[at:min(len(b), at+1+rng.IntN(200))])
	}
	return b
}

// salvageFailures has reads of the file, and Add, fail: that is not damage.
func (s *suite) salvageFailures(t *testing.T) {
	b, _ := s.small(t)
	env := Env{Name: "000007.ldb", Comparer: base.Bytewise}
	failEachRead(t, b, func(f *memFile) error {
		_, _, err := s.salvaged(f, env)
		return err
	})
	err := s.Salvage(&memFile{b: b}, env, sstable.Salvage{
		Add:  func([]byte, base.Trailer, base.Codec, []byte) error { return errInjected },
		Lost: func(l sstable.Lost) { t.Errorf("lost %+v", l) },
	})
	if !errors.Is(err, errInjected) {
		t.Errorf("Add failed: %v", err)
	}
}
