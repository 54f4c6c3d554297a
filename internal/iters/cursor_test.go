package iters

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// history is one random data set with a cursor and its oracle.
type history struct {
	rng          *rand.Rand
	cmp          *base.Comparer
	all          []entry
	sources      []base.Source
	seq          base.SeqNum
	style        int
	view         []entry // visible at seq
	want         []entry // view within the bounds
	pos          int     // index in want, -1: not valid
	lower, upper []byte
	log          []string
}

func newHistory(t testing.TB, seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 7))
	h := &history{rng: rng, style: rng.IntN(4), pos: -1}
	h.cmp = []*base.Comparer{base.Bytewise, base.ReverseBytewise, foldCase}[rng.IntN(3)]
	k := []int{0, 1, 1, 2, 3, 5, 8, 20}[rng.IntN(8)]
	perSource := []int{1, 3, 30, 120}[rng.IntN(4)]
	maxChunk := []int{1, 3, 10, 60}[rng.IntN(4)]
	deletes := []int{0, 0, 2, 6}[rng.IntN(4)]
	repeat := rng.IntN(2) == 0 // several versions of a key in one source
	seq := base.SeqNum(rng.IntN(3))
	for range k {
		var es []entry
		seen := map[string]bool{}
		for range rng.IntN(perSource + 1) {
			key := randomKey(rng, h.style)
			if !repeat {
				id := string(bytes.ToLower(key))
				if seen[id] {
					continue
				}
				seen[id] = true
			}
			kind := base.KindSet
			if rng.IntN(10) < deletes {
				kind = base.KindDelete
			}
			seq++
			value := fmt.Appendf(nil, "v%d", seq)
			if kind == base.KindDelete || rng.IntN(10) == 0 {
				value = nil
			}
			es = append(es, entry{key, value, base.MakeTrailer(seq, kind)})
		}
		h.all = append(h.all, es...)
		sortEntries(h.cmp, es)
		if rng.IntN(3) == 0 {
			h.sources = append(h.sources, levelOf(t, h.cmp, es, rng, maxChunk))
		} else {
			h.sources = append(h.sources, newTestSource(t, h.cmp, es, rng, maxChunk))
		}
	}
	// Newer sources first, as lsm passes them.
	for i, j := 0, len(h.sources)-1; i < j; i, j = i+1, j-1 {
		h.sources[i], h.sources[j] = h.sources[j], h.sources[i]
	}
	h.seq = base.MaxSeqNum
	if rng.IntN(2) == 0 {
		h.seq = base.SeqNum(rng.IntN(int(seq) + 1))
	}
	h.view = visible(h.cmp, h.all, h.seq)
	h.randomBounds()
	return h
}

func (h *history) randomBounds() {
	h.lower, h.upper = nil, nil
	if h.rng.IntN(2) == 0 {
		h.lower = randomKey(h.rng, h.style)
	}
	if h.rng.IntN(2) == 0 {
		h.upper = randomKey(h.rng, h.style)
	}
	h.want = clip(h.cmp, h.view, h.lower, h.upper)
	h.pos = -1
}

// op does one random operation on the cursor and the oracle.
func (h *history) op(c *Cursor) (got bool) {
	n := len(h.want)
	set := func(p int) {
		h.pos = p
		if p >= n {
			h.pos = -1
		}
	}
	switch r := h.rng.IntN(40); {
	case r < 1:
		h.log = append(h.log, "First")
		set(0)
		return c.First()
	case r < 2:
		h.log = append(h.log, "Last")
		set(n - 1)
		return c.Last()
	case r < 6:
		k := randomKey(h.rng, h.style)
		h.log = append(h.log, fmt.Sprintf("SeekGE(%q)", k))
		p := 0
		for p < n && h.cmp.Compare(h.want[p].key, k) < 0 {
			p++
		}
		set(p)
		return c.SeekGE(k)
	case r < 10:
		k := randomKey(h.rng, h.style)
		h.log = append(h.log, fmt.Sprintf("SeekLT(%q)", k))
		p := n
		for p > 0 && h.cmp.Compare(h.want[p-1].key, k) >= 0 {
			p--
		}
		set(p - 1)
		return c.SeekLT(k)
	case r < 11:
		h.randomBounds()
		h.log = append(h.log, fmt.Sprintf("SetBounds(%q, %q)", h.lower, h.upper))
		c.SetBounds(h.lower, h.upper)
		return c.Valid()
	case r < 26:
		h.log = append(h.log, "Next")
		if h.pos >= 0 {
			set(h.pos + 1)
		}
		return c.Next()
	default:
		h.log = append(h.log, "Prev")
		if h.pos >= 0 {
			set(h.pos - 1)
		}
		return c.Prev()
	}
}

func (h *history) check(c *Cursor, got bool) string {
	want := h.pos >= 0
	switch {
	case got != want || c.Valid() != want:
		return fmt.Sprintf("returned %v, Valid %v, want %v", got, c.Valid(), want)
	case !want:
		if c.Key() != nil || c.Value() != nil {
			return "key or value while not valid"
		}
		return ""
	}
	w := h.want[h.pos]
	if !bytes.Equal(c.Key(), w.key) || !bytes.Equal(c.Value(), w.value) {
		return fmt.Sprintf("at %q=%q, want %q=%q", c.Key(), c.Value(), w.key, w.value)
	}
	return ""
}

func TestCursorAgainstModel(t *testing.T) {
	histories := 6000
	if testing.Short() {
		histories = 1000
	}
	reused := new(Cursor)
	for seed := range uint64(histories) {
		h := newHistory(t, seed)
		c := reused
		if seed%2 == 0 {
			c = NewCursor(h.cmp, h.sources, h.seq, h.lower, h.upper)
		} else {
			c.Reset(h.cmp, h.sources, h.seq, h.lower, h.upper)
		}
		for range 120 {
			got := h.op(c)
			if bad := h.check(c, got); bad != "" {
				t.Fatalf("seed %d (%s, %d sources, %d entries): %s\nbounds %q %q seq %d\n%v", seed, h.cmp.Name, len(h.sources), len(h.all), bad, h.lower, h.upper, h.seq, h.log)
			}
		}
		if err := c.Err(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := c.Close(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if c.First() || c.Next() || c.SeekGE(nil) || c.Last() || c.Prev() {
			t.Fatal("a closed cursor moved")
		}
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, h.log)
		}
	}
}

// TestCursorAfterErrors lets each source fail after some moves, once: before that
// every answer is right, with the failure the cursor is not valid and has Err, and
// from the next positioning on every answer is right again.
func TestCursorAfterErrors(t *testing.T) {
	failures := 0
	for seed := range uint64(2000) {
		h := newHistory(t, seed)
		for _, s := range h.sources {
			if ts, ok := s.(*testSource); ok && h.rng.IntN(2) == 0 {
				ts.failAfter = h.rng.IntN(30)
			}
		}
		c := NewCursor(h.cmp, h.sources, h.seq, h.lower, h.upper)
		for range 60 {
			got := h.op(c)
			if c.Err() != nil {
				if !errors.Is(c.Err(), errInjected) {
					t.Fatalf("seed %d: %v", seed, c.Err())
				}
				if got || c.Valid() || c.Next() || c.Prev() || !errors.Is(c.Err(), errInjected) {
					t.Fatalf("seed %d: valid after an error", seed)
				}
				failures++
				h.log = append(h.log, "failed")
				h.pos = -1
				continue
			}
			if bad := h.check(c, got); bad != "" {
				t.Fatalf("seed %d: %s\n%v", seed, bad, h.log)
			}
		}
		want := c.Err()
		if err := c.Close(); err != want {
			t.Fatalf("seed %d: Close returned %v, not %v", seed, err, want)
		}
	}
	if failures < 100 {
		t.Fatalf("only %d histories met an error", failures)
	}
}

func TestCursorRefusesUnknownKindAndCodec(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	good := func(k string, seq base.SeqNum) entry {
		return entry{[]byte(k), []byte("v"), base.MakeTrailer(seq, base.KindSet)}
	}
	for _, kind := range []base.Kind{2, 7, 255} {
		es := []entry{good("a", 1), {[]byte("b"), nil, base.MakeTrailer(2, kind)}, good("c", 3)}
		for _, seq := range []base.SeqNum{1, 2, base.MaxSeqNum} {
			c := NewCursor(base.Bytewise, []base.Source{newTestSource(t, base.Bytewise, es, rng, 3)}, seq, nil, nil)
			for ok := c.First(); ok; ok = c.Next() {
			}
			if !errors.Is(c.Err(), base.ErrCorruption) {
				t.Errorf("kind %d forward at %d: %v", kind, seq, c.Err())
			}
			c = NewCursor(base.Bytewise, []base.Source{newTestSource(t, base.Bytewise, es, rng, 3)}, seq, nil, nil)
			for ok := c.Last(); ok; ok = c.Prev() {
			}
			if !errors.Is(c.Err(), base.ErrCorruption) {
				t.Errorf("kind %d backward at %d: %v", kind, seq, c.Err())
			}
		}
	}
	packed := fillEntries(base.Bytewise, []entry{good("a", 1)})
	packed.AllLiveSets, packed.Codecs = false, []base.Codec{9}
	c := NewCursor(base.Bytewise, []base.Source{&fixedSource{e: packed}}, base.MaxSeqNum, nil, nil)
	if c.First() || !errors.Is(c.Err(), base.ErrCorruption) {
		t.Errorf("unknown codec: %v", c.Err())
	}
}

// fixedSource is one chunk.
type fixedSource struct{ e base.Chunk }

func (f *fixedSource) First(e *base.Chunk) (int, error) { *e = f.e; return 0, nil }
func (f *fixedSource) Last(e *base.Chunk) (int, error)  { *e = f.e; return f.e.Len() - 1, nil }
func (f *fixedSource) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	*e = f.e
	if i := lowerBound(base.Bytewise, &f.e, 0, f.e.Len(), key); i < f.e.Len() {
		return i, nil
	}
	return -1, nil
}
func (f *fixedSource) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	*e = f.e
	return lowerBound(base.Bytewise, &f.e, 0, f.e.Len(), key) - 1, nil
}
func (f *fixedSource) Next(e *base.Chunk) (bool, error) { return false, nil }
func (f *fixedSource) Prev(e *base.Chunk) (bool, error) { return false, nil }
func (f *fixedSource) Close()                           {}
