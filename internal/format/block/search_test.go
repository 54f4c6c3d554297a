package block

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
)

// checkRefused: SearchRows refuses rows of which no View can be made.
func checkRefused(t *testing.T, c *base.Comparer, rows, key []byte) {
	t.Helper()
	if !c.HasAbbrev() {
		return
	}
	var buf Buffer
	defer buf.Free()
	if s, err := SearchRows(rows, 1<<20, c, base.MakeLookup(c, key, base.MaxSeqNum),
		&buf); !errors.Is(err, base.ErrCorruption) || s.Found {
		t.Fatalf("%s: a search of refused rows finds %v, %v", c.Name, s.Found, err)
	}
}

// checkSearchRows: SearchRows answers as v, the View of the rows, does: for the key,
// for the key of each entry and keys beside it, at the sequence number of each entry
// and beside it.
func checkSearchRows(t *testing.T, c *base.Comparer, rows []byte, v View, key []byte) {
	t.Helper()
	if !c.HasAbbrev() {
		return
	}
	var buf Buffer
	defer buf.Free()
	check := func(key []byte, seq base.SeqNum) {
		t.Helper()
		l := base.MakeLookup(c, key, seq)
		s, err := SearchRows(rows, 1<<20, c, l, &buf)
		if err != nil || s.Count != v.Len() {
			t.Fatalf("%s: %d entries, want %d (%v)", c.Name, s.Count, v.Len(), err)
		}
		if at := v.Get(c, l); s.Found != (at >= 0) || s.Found &&
			(s.Trailer != v.Trailer(at) || !bytes.Equal(s.Value, v.Value(at))) {
			t.Fatalf("%s: %q@%d is found %v, %v %q; the view has it at %d", c.Name, key, seq,
				s.Found, s.Trailer, s.Value, at)
		}
		if last := v.Len() - 1; last >= 0 && (!bytes.Equal(s.First, v.Key(0)) ||
			s.FirstTrailer != v.Trailer(0) || !bytes.Equal(s.Last, v.Key(last)) ||
			s.LastTrailer != v.Trailer(last)) {
			t.Fatalf("%s: first %q %v, last %q %v", c.Name, s.First, s.FirstTrailer, s.Last,
				s.LastTrailer)
		}
	}
	check(key, base.MaxSeqNum)
	step := max(v.Len()/64, 1)
	for i := 0; i < v.Len(); i += step {
		k, seq := v.Key(i), v.Trailer(i).Seq()
		check(k, base.MaxSeqNum)
		check(k, seq)
		if seq > 0 {
			check(k, seq-1)
		}
		check(append(bytes.Clone(k), 0), base.MaxSeqNum)
		if len(k) > 0 {
			check(k[:len(k)-1], base.MaxSeqNum)
		}
	}
}

func TestSearchRowsAnswersAsTheView(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	damaged, refused := 0, 0
	for round := range 600 {
		c := orders[round%2]
		es := randomEntries(rng, c, 1+rng.IntN(60))
		switch round % 10 {
		case 2, 3: // keys for which the buffer has to grow
			for i := range es {
				es[i].Key = append(bytes.Repeat([]byte("p"), 3000), es[i].Key...)
			}
		case 4, 5: // the same while it holds bytes that are shared
			for i := range es {
				es[i].Key = append(bytes.Repeat([]byte("p"), 100*i), es[i].Key...)
			}
			es = model.SortUnique(c, es)
		}
		rows := rowsOf(t, es, 1+rng.IntN(17))
		for range 8 {
			v, mem, err := viewOf(rows, c, PointLookup)
			if err == nil {
				checkSearchRows(t, c, rows, v, es[0].Key)
			} else {
				checkRefused(t, c, rows, es[0].Key)
				refused++
			}
			offheap.Free(mem)
			rows[rng.IntN(len(rows))] ^= 1 << rng.IntN(8)
			damaged++
		}
	}
	if refused < damaged/20 || refused > damaged*19/20 {
		t.Errorf("%d of %d damaged blocks are refused: the test does not see both cases", refused,
			damaged)
	}
}

func TestSearchRowsDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	es := randomEntries(rng, base.Bytewise, 50)
	rows := rowsOf(t, es, 16)
	var buf Buffer
	defer buf.Free()
	key := bytes.Clone(es[len(es)/2].Key)
	if n := testing.AllocsPerRun(100, func() {
		if s, err := SearchRows(rows, 1<<20, base.Bytewise,
			base.MakeLookup(base.Bytewise, key, base.MaxSeqNum), &buf); err != nil || !s.Found {
			t.Fatal(s.Found, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
