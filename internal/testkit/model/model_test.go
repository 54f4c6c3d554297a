package model

import (
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
		if lower != nil && cmp.Compare([]byte(k), lower) < 0 || upper != nil &&
			cmp.Compare([]byte(k), upper) >= 0 {
			continue
		}
		out = append(out, Pair{k, v})
	}
	sort.Slice(out, func(i, j int) bool {
		return cmp.Compare([]byte(out[i].Key), []byte(out[j].Key)) < 0
	})
	return out
}

// checkCursor makes random moves and finds each result by position in pairs.
func checkCursor(t *testing.T, rng *rand.Rand, c *Cursor, cmp *base.Comparer, pairs []Pair) {
	t.Helper()
	at := -1
	index := func(k []byte) int {
		return sort.Search(len(pairs), func(i int) bool {
			return cmp.Compare([]byte(pairs[i].Key), k) >= 0
		})
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

// TestVersionsOfOneKey reads the versions of two keys, one of them in two spellings,
// which come in any order.
func TestVersionsOfOneKey(t *testing.T) {
	m := New(Fold, Set("b", 4, "x"), Set("a", 5, "z"), Tombstone("A", 3), Set("A", 1, "y"),
		Set("a", 2, ""))
	if got, want := fmt.Sprint(m.Entries()), "[a#5=z A#3- a#2= A#1=y b#4=x]"; got != want {
		t.Errorf("entries %s, want %s", got, want)
	}
	if m.Now() != 5 {
		t.Errorf("the newest is %d", m.Now())
	}
	for at, want := range []string{"[] []", "[A#1=y] [{A y}]", "[a#2=] [{a }]", "[A#3-] []",
		"[A#3- b#4=x] [{b x}]", "[a#5=z b#4=x] [{a z} {b x}]"} {
		seq := base.SeqNum(at)
		if got := fmt.Sprint(m.EntriesAt(seq), m.Scan(seq, nil, nil)); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
		for _, key := range []string{"a", "A", "b", "c"} {
			e, found := m.Newest(seq, []byte(key))
			value, live := m.Get(seq, []byte(key))
			i := slices.IndexFunc(m.EntriesAt(seq), func(e Entry) bool {
				return Fold.Compare(e.Key, []byte(key)) == 0
			})
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
	if got := Search(base.Bytewise, es, []byte("a"), base.MakeTrailer(2, base.KindForSeek)); got !=
		2 {
		t.Errorf("what is visible of a at 2 is at %d", got)
	}
}

func TestSortUniqueDropsRepetitions(t *testing.T) {
	es := SortUnique(Fold, []Entry{Set("b", 1, "x"), Set("a", 1, "x"), Set("A", 1, "y"),
		Set("a", 2, "z"), Set("b", 1, "y")})
	if got, want := fmt.Sprint(es), "[a#2=z a#1=x b#1=x]"; got != want {
		t.Errorf("%s, want %s", got, want)
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
			t.Errorf("%v: %d entries, all live %v, newest %d", tc.es, c.Len(), c.AllLiveSets,
				c.MaxSeq)
		}
		for i, e := range tc.es {
			if got := (Entry{c.Key(i), c.Value(i), c.Trailers[i]}); got.String() != e.String() {
				t.Errorf("%v: entry %d is %v", tc.es, i, got)
			}
		}
	}
}

func TestParseReadsWhatFormatPrints(t *testing.T) {
	const text = "a#3=x a#2- b#9,7=y b#1= #4="
	es, ends, err := Parse("a#3=x a#2- | b#9,7=y b#1= | #4=")
	if err != nil || Format(es) != text || fmt.Sprint(ends) != "[2 4 5]" {
		t.Errorf("%v, chunks %v, %v", es, ends, err)
	}
	if es[1].Trailer.Kind() != base.KindDelete || es[2].Trailer.Kind() != 7 {
		t.Errorf("kinds of %v", es)
	}
	for _, bad := range []string{"a", "a#", "a#x=1", "a#1,x=1", "a#-"} {
		if es, _, err := Parse(bad); err == nil {
			t.Errorf("%s is read as %v", bad, es)
		}
	}
}

// TestSourceWalksItsChunks moves over three chunks and compares the visited entries.
func TestSourceWalksItsChunks(t *testing.T) {
	es, ends, err := Parse("a#1=x b#1=x | c#1=x | d#1=x e#1=x")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSource(t, base.Bytewise, es, ends)
	var c, before base.Chunk
	want := func(what, keys string, walked ...int) {
		t.Helper()
		got := ""
		for i := range c.Len() {
			got += string(c.Key(i))
		}
		if got != keys {
			t.Errorf("%s: %q, want %q", what, got, keys)
		}
		if from, to, n := s.Walked(); fmt.Sprint([]int{from, to, n}) != fmt.Sprint(walked) {
			t.Errorf("%s: walked %d to %d, %d entries; want %v", what, from, to, n, walked)
		}
	}
	if i, err := s.SeekGE([]byte("b"), base.MaxTrailer, &c); i != 1 || err != nil {
		t.Fatal(i, err)
	}
	want("SeekGE", "ab", 0, 1, 2)
	before = c
	s.Next(&c)
	want("Next", "c", 0, 2, 3)
	if string(before.Key(0)) == "a" {
		t.Error("a chunk outlives the next move")
	}
	s.Next(&c)
	want("Next", "de", 0, 3, 5)
	s.Prev(&c)
	want("Prev", "c", 1, 2, 1)
	s.Next(&c)
	want("Next", "de", 1, 3, 3)
	s.FailAfter = 1
	if i, err := s.SeekLT([]byte("c"), base.MaxTrailer, &c); i != 1 || err != nil {
		t.Fatal(i, err)
	}
	want("SeekLT", "ab", 0, 1, 2)
	if ok, err := s.Next(&c); ok || err != ErrInjected || c.Len() != 0 {
		t.Error(ok, err)
	}
	if i, err := s.Last(&c); i != 1 || err != nil {
		t.Fatal(i, err)
	}
	if ok, err := s.Next(&c); ok || err != nil || c.Len() != 0 {
		t.Error("a chunk behind the last", ok, err)
	}
}
