package txn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// oneWrite is an operation as a test remembers it.
type oneWrite struct {
	kind       base.Kind
	key, value string
}

// visible is what a reader sees of writes: of each key the newest, in order.
func visible(c *base.Comparer, writes []oneWrite) (list []oneWrite) {
	newest := map[string]oneWrite{}
	for _, w := range writes {
		newest[w.key] = w
	}
	for _, w := range newest {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b oneWrite) int {
		return c.Compare([]byte(a.key), []byte(b.key))
	})
	return list
}

// walk reads a source from the entry that a positioning call returned.
func walk(t *testing.T, src base.Source, e *base.Chunk, i int, err error,
	back bool) (list []oneWrite) {
	t.Helper()
	for ok := i >= 0; ok; {
		if err != nil {
			break
		}
		for ; i >= 0 && i < e.Len(); i += map[bool]int{false: 1, true: -1}[back] {
			list = append(list, oneWrite{e.Trailers[i].Kind(), string(e.Key(i)),
				string(e.Value(i))})
		}
		if back {
			ok, err = src.Prev(e)
			i = e.Len() - 1
		} else {
			ok, err = src.Next(e)
			i = 0
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestBatch compares random writes, marks and sources with a list.
func TestBatch(t *testing.T) {
	seed := seedOf(t)
	for round := range 150 {
		testBatch(t, rand.New(rand.NewPCG(seed, uint64(round))))
	}
}

// seedOf is testkit.Seed, which cannot be imported here.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("LOAM_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d; again with LOAM_SEED=%d", seed, seed)
	return seed
}

func testBatch(t *testing.T, rng *rand.Rand) {
	c := []*base.Comparer{base.Bytewise, base.ReverseBytewise}[rng.IntN(2)]
	var mu sync.Mutex
	b := NewBatch()
	defer b.Release()
	s := b.Space(3, c, true)
	var writes []oneWrite
	type mark struct {
		m Mark
		n int
	}
	type reader struct {
		src base.Source
		n   int
	}
	var marks []mark
	var readers []reader
	keys := 1 + rng.IntN(200)
	for range rng.IntN(600) {
		switch op := rng.IntN(100); {
		case op < 80:
			w := oneWrite{base.KindSet, fmt.Sprint(rng.IntN(keys)), fmt.Sprint(rng.Uint32())}
			if rng.IntN(4) == 0 {
				w.kind, w.value = base.KindDelete, ""
			}
			s.Add(w.kind, []byte(w.key), []byte(w.value))
			writes = append(writes, w)
		case op < 84:
			marks = append(marks, mark{b.Mark(), len(writes)})
		case op < 86 && len(marks) > 0:
			m := marks[rng.IntN(len(marks))]
			marks = slices.DeleteFunc(marks, func(o mark) bool { return o.n > m.n })
			b.RollBack(m.m)
			writes = writes[:m.n]
			for _, r := range readers {
				if r.n <= m.n {
					continue
				}
				var e base.Chunk
				if _, err := r.src.First(&e); err == nil {
					t.Fatal("a source goes on whose writes were taken back")
				}
				r.src.Close()
			}
			readers = slices.DeleteFunc(readers, func(r reader) bool { return r.n > m.n })
		case op < 90:
			readers = append(readers, reader{s.Sources(&mu)(), len(writes)})
		case op < 95:
			key := fmt.Sprint(rng.IntN(keys))
			value, kind, found := s.Get([]byte(key))
			i := slices.IndexFunc(visible(c, writes), func(w oneWrite) bool { return w.key == key })
			if found != (i >= 0) || found &&
				(visible(c, writes)[i] != oneWrite{kind, key, string(value)}) {
				t.Fatalf("Get(%q): %v %q %v", key, kind, value, found)
			}
		}
		if len(readers) > 0 && rng.IntN(10) == 0 {
			r := readers[rng.IntN(len(readers))]
			checkSource(t, rng, r.src, c, visible(c, writes[:r.n]), fmt.Sprint(rng.IntN(keys)))
		}
	}
	if b.Count() != len(writes) {
		t.Fatalf("%d writes, want %d", b.Count(), len(writes))
	}
	if err := batchrepr.Validate(b.Bytes(), func(base.KeyspaceID) bool {
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for _, r := range readers {
		r.src.Close()
	}
}

func checkSource(t *testing.T, rng *rand.Rand, src base.Source, c *base.Comparer, want []oneWrite,
	key string) {
	t.Helper()
	var e base.Chunk
	at, _ := slices.BinarySearchFunc(want, key, func(w oneWrite, key string) int {
		return c.Compare([]byte(w.key), []byte(key))
	})
	var got, wants []oneWrite
	switch rng.IntN(4) {
	case 0:
		i, err := src.First(&e)
		got, wants = walk(t, src, &e, i, err, false), want
	case 1:
		i, err := src.Last(&e)
		got, wants = walk(t, src, &e, i, err, true), slices.Clone(want)
		slices.Reverse(wants)
	case 2:
		i, err := src.SeekGE([]byte(key), base.MakeTrailer(5, base.KindForSeek), &e)
		got, wants = walk(t, src, &e, i, err, false), want[at:]
	default:
		i, err := src.SeekLT([]byte(key), base.MaxTrailer, &e)
		got, wants = walk(t, src, &e, i, err, true), slices.Clone(want[:at])
		slices.Reverse(wants)
	}
	if !slices.Equal(got, wants) {
		t.Fatalf("got %v, want %v", got, wants)
	}
}

// TestManyVersions: a key that is written a hundred thousand times does not slow down reads of the
// others.
func TestManyVersions(t *testing.T) {
	var mu sync.Mutex
	b := NewBatch()
	s := b.Space(0, base.Bytewise, true)
	s.Add(base.KindSet, []byte("a"), nil)
	early := s.Sources(&mu)()
	for i := range 100_000 {
		s.Add(base.KindSet, []byte("b"), fmt.Append(nil, i))
	}
	s.Add(base.KindSet, []byte("c"), nil)
	src := s.Sources(&mu)()
	defer src.Close()
	var e base.Chunk
	for range 1000 {
		i, err := src.First(&e)
		if got := walk(t, src, &e, i, err, false); len(got) != 3 || got[1].value != "99999" {
			t.Fatal(got)
		}
		i, err = src.Last(&e)
		if got := walk(t, src, &e, i, err, true); len(got) != 3 || got[1].value != "99999" {
			t.Fatal(got)
		}
	}
	if i, err := early.First(&e); i != 0 || err != nil || e.Len() != 1 ||
		!bytes.Equal(e.Key(0), []byte("a")) {
		t.Fatalf("%d %v %v", i, err, e)
	}
	early.Close()
}

// TestMergesAreKept: entries that do not end a lookup are returned together with the older ones.
func TestMergesAreKept(t *testing.T) {
	var mu sync.Mutex
	b := NewBatch()
	s := b.Space(0, base.Bytewise, true)
	s.Add(base.KindSet, []byte("k"), []byte("hidden"))
	s.Add(base.KindSet, []byte("k"), []byte("base"))
	s.Add(base.KindMerge, []byte("k"), []byte("1"))
	s.Add(base.KindMerge, []byte("k"), []byte("2"))
	src := s.Sources(&mu)()
	defer src.Close()
	var e base.Chunk
	want := []oneWrite{{base.KindMerge, "k", "2"}, {base.KindMerge, "k", "1"},
		{base.KindSet, "k", "base"}}
	i, err := src.First(&e)
	if got := walk(t, src, &e, i, err, false); !slices.Equal(got, want) {
		t.Fatal(got)
	}
	slices.Reverse(want)
	i, err = src.Last(&e)
	if got := walk(t, src, &e, i, err, true); !slices.Equal(got, want) {
		t.Fatal(got)
	}
}

// TestNodeSize bounds the memory of the order of a batch: an entry of 16 bytes of key and
// 16 of value takes 35 bytes in the batch, and at most 24 beside it.
func TestNodeSize(t *testing.T) {
	b := &Batch{repr: batchrepr.Init(nil)}
	s := b.Space(0, base.Bytewise, true)
	const n = 100_000
	for i := range n {
		s.Add(base.KindSet, fmt.Appendf(nil, "%016d", i*7919%n), make([]byte, 16))
	}
	if size := 16*len(s.list.nodes) + 4*len(s.list.towers); size > 24*n {
		t.Errorf("%d bytes for %d entries", size, n)
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{4, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := make([][]byte, n)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "%016d", i*7919%n)
			}
			value := make([]byte, 100)
			for b.Loop() {
				batch := NewBatch()
				s := batch.Space(0, base.Bytewise, true)
				for _, k := range keys {
					s.Add(base.KindSet, k, value)
				}
				batch.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}
