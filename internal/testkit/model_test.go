package testkit

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestModel holds the model against full copies of a plain map.
func TestModel(t *testing.T) {
	for _, cmp := range []*base.Comparer{base.Bytewise, base.ReverseBytewise} {
		rng := rand.New(rand.NewPCG(1, 2))
		m := NewModel(cmp)
		states := []map[string]string{{}}
		for i := range 300 {
			next := map[string]string{}
			for k, v := range states[len(states)-1] {
				next[k] = v
			}
			k := fmt.Sprint(rng.IntN(40))
			if rng.IntN(3) == 0 {
				m.Delete([]byte(k))
				delete(next, k)
			} else {
				m.Put([]byte(k), fmt.Append(nil, i))
				next[k] = fmt.Sprint(i)
			}
			states = append(states, next)
		}
		for at, state := range states {
			lower, upper := bound(rng), bound(rng)
			want := sorted(cmp, state, lower, upper)
			if got := fmt.Sprint(m.Scan(Time(at), lower, upper)); got != fmt.Sprint(want) {
				t.Fatalf("at %d [%q,%q): got %v want %v", at, lower, upper, got, want)
			}
			checkCursor(t, rng, m.Cursor(Time(at), lower, upper), cmp, want)
		}
	}
}

func bound(rng *rand.Rand) []byte {
	if rng.IntN(2) == 0 {
		return nil
	}
	return fmt.Append(nil, rng.IntN(40))
}

func sorted(cmp *base.Comparer, state map[string]string, lower, upper []byte) []Pair {
	var out []Pair
	for k, v := range state {
		if lower != nil && cmp.Compare([]byte(k), lower) < 0 || upper != nil && cmp.Compare([]byte(k), upper) >= 0 {
			continue
		}
		out = append(out, Pair{k, v})
	}
	sort.Slice(out, func(i, j int) bool { return cmp.Compare([]byte(out[i].Key), []byte(out[j].Key)) < 0 })
	return out
}

// checkCursor makes random moves and finds each result by position in pairs.
func checkCursor(t *testing.T, rng *rand.Rand, c *Cursor, cmp *base.Comparer, pairs []Pair) {
	t.Helper()
	at := -1
	index := func(k []byte) int {
		return sort.Search(len(pairs), func(i int) bool { return cmp.Compare([]byte(pairs[i].Key), k) >= 0 })
	}
	for range 30 {
		var ok bool
		k := fmt.Append(nil, rng.IntN(45))
		switch op := rng.IntN(6); {
		case op == 0:
			ok, at = c.First(), 0
		case op == 1:
			ok, at = c.Last(), len(pairs)-1
		case op == 2:
			ok, at = c.SeekGE(k), index(k)
		case op == 3:
			ok, at = c.SeekLT(k), index(k)-1
		case !c.Valid():
			continue
		case op == 4:
			ok, at = c.Next(), at+1
		default:
			ok, at = c.Prev(), at-1
		}
		want := at >= 0 && at < len(pairs)
		if ok != want || c.Valid() != want {
			t.Fatalf("valid %v, want %v", ok, want)
		}
		if ok && (c.Key() != pairs[at].Key || c.Value() != pairs[at].Value) {
			t.Fatalf("at %s=%s, want %v", c.Key(), c.Value(), pairs[at])
		}
	}
}

func TestScale(t *testing.T) {
	t.Setenv(FullEnv, "1")
	if want := 3; !testing.Short() && Scale(1, 2, 3) != want {
		t.Error("the full size is not used")
	}
	t.Setenv(SeedEnv, "42")
	if got := Seed(t); got != 42 {
		t.Errorf("seed %d", got)
	}
}
