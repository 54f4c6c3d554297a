package txn

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

func comparers(c *base.Comparer) func(base.KeyspaceID) *base.Comparer {
	return func(base.KeyspaceID) *base.Comparer { return c }
}

// TestScan moves like an iterator over the even numbers below 100 and asks which numbers
// were read.
func TestScan(t *testing.T) {
	seed := seedOf(t)
	for round := range 1000 {
		testScan(t, rand.New(rand.NewPCG(seed, uint64(round))))
	}
}

func name(i int) []byte { return fmt.Appendf(nil, "%03d", i) }

func testScan(t *testing.T, rng *rand.Rand) {
	var r Reads
	var mu sync.Mutex
	s := NewScan(&r, &mu, 7, base.Bytewise)
	lo, hi := 2*rng.IntN(50), 100
	var lower, upper []byte
	if rng.IntN(2) == 0 {
		lower = name(lo)
	} else {
		lo = 0
	}
	if rng.IntN(2) == 0 {
		hi = lo + 2*rng.IntN((100-lo)/2+1)
		if hi < 100 {
			upper = name(hi)
		}
	}
	read := map[int]bool{}
	mark := func(from, to int) { // to excluded
		for i := max(from, 0); i < to; i++ {
			read[i] = true
		}
	}
	key := func(i int) []byte {
		if i < lo || i >= hi {
			return nil
		}
		return name(i)
	}
	at := -1
	for range rng.IntN(12) {
		switch op := rng.IntN(5); {
		case op == 0:
			from := lo + rng.IntN(hi-lo+1)
			at = from + from%2
			mark(from, min(at+1, hi))
			bound := name(from)
			if from == lo {
				bound = lower
			}
			s.Forward(bound, key(at), upper)
		case op == 1:
			before := lo + rng.IntN(hi-lo+1)
			at = before - 1 - (before-1)&1
			mark(max(at, lo), before)
			bound := name(before)
			if before == hi {
				bound = upper
			}
			s.Backward(bound, key(at), lower)
		case op < 4 && at >= lo && at < hi:
			mark(at, min(at+3, hi))
			at += 2
			s.Next(key(at), upper)
		case at >= lo && at < hi:
			mark(max(at-2, lo), at+1)
			at -= 2
			s.Prev(key(at), lower)
		}
	}
	all := r.Union(comparers(base.Bytewise))
	if len(all) > 1 {
		t.Fatalf("%d keyspaces", len(all))
	}
	for i := range 100 {
		if got := len(all) > 0 && all[0].Holds(base.Bytewise, name(i)); got != read[i] {
			t.Fatalf("%d was read: %v, the ranges say %v: %+v, bounds %d %d", i, read[i], got, all,
				lo, hi)
		}
	}
}

func TestReadKeys(t *testing.T) {
	var r Reads
	for range 3 {
		for i := range 100 {
			r.AddKey(base.KeyspaceID(i%2), name(i/2), base.SeqNum(i))
			r.AddKey(base.KeyspaceID(i%2), name(i/2), 1000)
		}
	}
	n := 0
	r.Keys(func(id base.KeyspaceID, user []byte, since base.SeqNum) bool {
		if id != base.KeyspaceID(n%2) || string(user) != string(name(n/2)) ||
			since != base.SeqNum(n) {
			t.Fatalf("%d: %d %q %d", n, id, user, since)
		}
		n++
		return true
	})
	if n != 100 {
		t.Fatalf("%d keys", n)
	}
}
