package model

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestModel holds the model against full copies of a plain map.
func TestModel(t *testing.T) {
	for _, cmp := range []*base.Comparer{base.Bytewise, base.ReverseBytewise} {
		rng := rand.New(rand.NewPCG(1, 2))
		m := New(cmp)
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
			if got := fmt.Sprint(m.Scan(base.SeqNum(at), lower, upper)); got != fmt.Sprint(want) {
				t.Fatalf("at %d [%q,%q): got %v want %v", at, lower, upper, got, want)
			}
			checkCursor(t, rng, m.Cursor(base.SeqNum(at), lower, upper), cmp, want)
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

// fold takes upper and lower case for equal.
var fold = &base.Comparer{
	Name:    "test.Fold",
	Compare: func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
}

// TestVersionsOfOneKey reads the versions of two keys, one of them in two spellings,
// which come in any order.
func TestVersionsOfOneKey(t *testing.T) {
	m := New(fold, Set("b", 4, "x"), Set("a", 5, "z"), Tombstone("A", 3), Set("A", 1, "y"), Set("a", 2, ""))
	if got, want := fmt.Sprint(m.Entries()), "[a#5=z A#3- a#2= A#1=y b#4=x]"; got != want {
		t.Errorf("entries %s, want %s", got, want)
	}
	if m.Now() != 5 {
		t.Errorf("the newest is %d", m.Now())
	}
	for at, want := range []string{"[] []", "[A#1=y] [{A y}]", "[a#2=] [{a }]", "[A#3-] []", "[A#3- b#4=x] [{b x}]", "[a#5=z b#4=x] [{a z} {b x}]"} {
		seq := base.SeqNum(at)
		if got := fmt.Sprint(m.EntriesAt(seq), m.Scan(seq, nil, nil)); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
		for _, key := range []string{"a", "A", "b", "c"} {
			e, found := m.Newest(seq, []byte(key))
			value, live := m.Get(seq, []byte(key))
			i := slices.IndexFunc(m.EntriesAt(seq), func(e Entry) bool { return fold.Compare(e.Key, []byte(key)) == 0 })
			if found != (i >= 0) || found && e.String() != m.EntriesAt(seq)[i].String() {
				t.Errorf("at %d: newest of %s is %v, %v", at, key, e, found)
			}
			if live != (found && e.Trailer.Kind() == base.KindSet) || value != string(e.Value) {
				t.Errorf("at %d: get %s: %q, %v", at, key, value, live)
			}
		}
	}
}

func TestSortAndSearch(t *testing.T) {
	es := []Entry{Set("b", 1, "x"), Set("a", 1, "x"), Tombstone("a", 7), Set("a", 3, "x")}
	Sort(base.Bytewise, es)
	if got, want := fmt.Sprint(es), "[a#7- a#3=x a#1=x b#1=x]"; got != want {
		t.Fatalf("sorted %s, want %s", got, want)
	}
	for i, e := range es {
		if got := Search(base.Bytewise, es, e.Key, e.Trailer); got != i {
			t.Errorf("%v is at %d, not %d", e, got, i)
		}
	}
	if got := Search(base.Bytewise, es, []byte("a"), base.MakeTrailer(2, base.KindForSeek)); got != 2 {
		t.Errorf("what is visible of a at 2 is at %d", got)
	}
}

func TestChunkSaysWhatItHolds(t *testing.T) {
	for _, tc := range []struct {
		es   []Entry
		live bool
	}{
		{nil, true},
		{[]Entry{Set("a", 3, "x"), Set("b", 2, "")}, true},
		{[]Entry{Set("a", 3, "x"), Tombstone("b", 2)}, false},
		{[]Entry{Set("a", 3, "x"), Set("a", 2, "y")}, false},
	} {
		c := Chunk(base.Bytewise, tc.es)
		if c.Len() != len(tc.es) || c.AllLiveSets != tc.live || len(tc.es) > 0 && c.MaxSeq != 3 {
			t.Errorf("%v: %d entries, all live %v, newest %d", tc.es, c.Len(), c.AllLiveSets, c.MaxSeq)
		}
		for i, e := range tc.es {
			if got := (Entry{c.Key(i), c.Value(i), c.Trailers[i]}); got.String() != e.String() {
				t.Errorf("%v: entry %d is %v", tc.es, i, got)
			}
		}
	}
}
