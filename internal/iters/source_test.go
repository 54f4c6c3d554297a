package iters

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

type entry struct {
	key, value []byte
	t          base.Trailer
}

// foldCase orders keys without regard to case: equal is not bytewise.
var foldCase = &base.Comparer{
	Name:    "test.FoldCase",
	Compare: func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
}

func sortEntries(cmp *base.Comparer, es []entry) {
	sort.SliceStable(es, func(i, j int) bool {
		return cmp.CompareInternal(es[i].key, es[i].t, es[j].key, es[j].t) < 0
	})
}

var errInjected = errors.New("injected")

// testSource hands out entries in chunks cut at the given ends. It overwrites
// a chunk when it is left, fails the test on calls that the contract forbids,
// and returns errInjected when failAfter moves are used up (negative: never).
type testSource struct {
	t           testing.TB
	cmp         *base.Comparer
	es          []entry
	ends        []int // ascending; the last is len(es)
	hideAllLive func() bool
	cur         int // chunk, -1 when not positioned
	old         []byte
	failAfter   int
	closed      bool
}

func newTestSource(t testing.TB, cmp *base.Comparer, es []entry, rng *rand.Rand, maxChunk int) *testSource {
	s := &testSource{t: t, cmp: cmp, es: es, cur: -1, failAfter: -1, hideAllLive: func() bool { return rng.IntN(8) == 0 }}
	for n := 0; n < len(es); {
		n = min(len(es), n+1+rng.IntN(maxChunk))
		s.ends = append(s.ends, n)
	}
	return s
}

func (s *testSource) fail() error {
	if s.closed {
		s.t.Error("use after Close")
	}
	s.failAfter--
	if s.failAfter == -1 {
		return errInjected
	}
	return nil
}

func (s *testSource) none(e *base.Chunk, err error) (int, error) {
	s.scramble()
	s.cur = -1
	*e = base.Chunk{}
	return -1, err
}

func (s *testSource) scramble() {
	for i := range s.old {
		s.old[i] = 0xee
	}
	s.old = nil
}

func (s *testSource) fill(chunk int, e *base.Chunk) int {
	s.scramble()
	s.cur = chunk
	start := 0
	if chunk > 0 {
		start = s.ends[chunk-1]
	}
	*e = fillEntries(s.cmp, s.es[start:s.ends[chunk]])
	if s.hideAllLive != nil && s.hideAllLive() {
		e.AllLiveSets = false
	}
	s.old = e.Data
	return start
}

func fillEntries(cmp *base.Comparer, es []entry) base.Chunk {
	e := base.Chunk{AllLiveSets: true, Data: []byte("??")}
	for i, x := range es {
		e.KeyOff = append(e.KeyOff, uint32(len(e.Data)))
		e.Data = append(e.Data, x.key...)
		e.ValOff = append(e.ValOff, uint32(len(e.Data)))
		e.Data = append(e.Data, x.value...)
		e.ValEnd = append(e.ValEnd, uint32(len(e.Data)))
		e.Trailers = append(e.Trailers, x.t)
		e.MaxSeq = max(e.MaxSeq, x.t.Seq())
		if x.t.Kind() != base.KindSet || i > 0 && cmp.Compare(x.key, es[i-1].key) == 0 {
			e.AllLiveSets = false
		}
	}
	return e
}

func (s *testSource) at(n int, e *base.Chunk) (int, error) {
	if err := s.fail(); err != nil || n < 0 || n >= len(s.es) {
		return s.none(e, err)
	}
	chunk := sort.SearchInts(s.ends, n+1)
	return n - s.fill(chunk, e), nil
}

// move goes to a chunk, if there is one.
func (s *testSource) move(chunk int, e *base.Chunk) (bool, error) {
	if s.cur < 0 {
		s.t.Error("Next or Prev while not positioned")
		return false, nil
	}
	if err := s.fail(); err != nil || chunk < 0 || chunk >= len(s.ends) {
		_, err = s.none(e, err)
		return false, err
	}
	s.fill(chunk, e)
	return true, nil
}

func (s *testSource) search(key []byte, t base.Trailer) int {
	return sort.Search(len(s.es), func(i int) bool {
		return s.cmp.CompareInternal(s.es[i].key, s.es[i].t, key, t) >= 0
	})
}

func (s *testSource) First(e *base.Chunk) (int, error) { return s.at(0, e) }
func (s *testSource) Last(e *base.Chunk) (int, error)  { return s.at(len(s.es)-1, e) }
func (s *testSource) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	return s.at(s.search(key, t), e)
}
func (s *testSource) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	return s.at(s.search(key, t)-1, e)
}

func (s *testSource) Next(e *base.Chunk) (bool, error) { return s.move(s.cur+1, e) }
func (s *testSource) Prev(e *base.Chunk) (bool, error) { return s.move(s.cur-1, e) }

func (s *testSource) Close() {
	s.scramble()
	s.closed = true
}

// visible is the oracle: what a reader at seq sees of the entries.
func visible(cmp *base.Comparer, all []entry, seq base.SeqNum) []entry {
	es := append([]entry(nil), all...)
	sortEntries(cmp, es)
	var out []entry
	for i := 0; i < len(es); {
		j, done := i, false
		for ; j < len(es) && cmp.Compare(es[i].key, es[j].key) == 0; j++ {
			if !done && es[j].t.Seq() <= seq {
				done = true
				if es[j].t.Kind() == base.KindSet {
					out = append(out, es[j])
				}
			}
		}
		i = j
	}
	return out
}

func clip(cmp *base.Comparer, es []entry, lower, upper []byte) []entry {
	var out []entry
	for _, e := range es {
		if (lower == nil || cmp.Compare(e.key, lower) >= 0) && (upper == nil || cmp.Compare(e.key, upper) < 0) {
			out = append(out, e)
		}
	}
	return out
}

// randomKey draws from a small universe with many shared prefixes, including
// the empty key and keys that are prefixes of others.
func randomKey(rng *rand.Rand, style int) []byte {
	switch style {
	case 0:
		return fmt.Appendf(nil, "%016d", rng.IntN(300))
	case 1:
		const letters = "aAbB\x00\xff"
		k := make([]byte, rng.IntN(4))
		for i := range k {
			k[i] = letters[rng.IntN(len(letters))]
		}
		return k
	case 2:
		k := bytes.Repeat([]byte("p"), rng.IntN(30))
		return append(k, byte(rng.IntN(4)), byte(rng.IntN(4)))
	}
	return fmt.Appendf(nil, "%c", 'a'+rng.IntN(3))
}
