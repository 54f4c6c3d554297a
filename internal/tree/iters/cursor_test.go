package iters

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/testkit/model"
	testseed "github.com/loamdb/loam/internal/testkit/seed"
)

// history is one random data set in several sources, with the model's cursor
// over the same.
type history struct {
	rng          *rand.Rand
	cmp          *base.Comparer
	model        *model.Model
	sources      []base.Source
	seq          base.SeqNum
	style        int // of keys
	want         *model.Cursor
	lower, upper []byte
	log          []string
}

func newHistory(t testing.TB, seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 7))
	h := &history{rng: rng, style: rng.IntN(4)}
	h.cmp = []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.Fold}[rng.IntN(3)]
	h.model = model.New(h.cmp)
	k := []int{0, 1, 1, 2, 3, 5, 8, 20}[rng.IntN(8)]
	perSource := []int{1, 3, 30, 120}[rng.IntN(4)]
	maxChunk := []int{1, 3, 10, 60}[rng.IntN(4)]
	deletes := []int{0, 0, 2, 6}[rng.IntN(4)]
	merges := []int{0, 0, 3, 8}[rng.IntN(4)]
	repeat := rng.IntN(2) == 0 // several versions of a key in one source
	seq := base.SeqNum(rng.IntN(3))
	for range k {
		var es []model.Entry
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
			} else if rng.IntN(10) < merges {
				kind = base.KindMerge
			}
			seq++
			e := model.Entry{Key: key, Value: fmt.Appendf(nil, "v%d", seq),
				Trailer: base.MakeTrailer(seq, kind)}
			if kind == base.KindDelete || rng.IntN(10) == 0 {
				e.Value = nil
			}
			es = append(es, e)
			h.model.Add(e)
		}
		model.Sort(h.cmp, es)
		if rng.IntN(3) == 0 {
			h.sources = append(h.sources, levelOf(t, h.cmp, es, rng, maxChunk))
		} else {
			h.sources = append(h.sources, newTestSource(t, h.cmp, es, rng, maxChunk))
		}
	}
	// Newer sources first, as lsm passes them.
	slices.Reverse(h.sources)
	h.seq = base.MaxSeqNum
	if rng.IntN(2) == 0 {
		h.seq = base.SeqNum(rng.IntN(int(seq) + 1))
	}
	h.randomBounds()
	h.want = h.model.Cursor(h.seq, h.lower, h.upper)
	return h
}

// appendOperator does what model.JoinByComma does.
var appendOperator, _ = mergeop.Named("append")

func (h *history) randomBounds() {
	h.lower, h.upper = nil, nil
	if h.rng.IntN(2) == 0 {
		h.lower = randomKey(h.rng, h.style)
	}
	if h.rng.IntN(2) == 0 {
		h.upper = randomKey(h.rng, h.style)
	}
}

// op makes one random move of the cursor and of the model's.
func (h *history) op(c *Cursor) (got, want bool) {
	note := func(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }
	switch r := h.rng.IntN(40); {
	case r < 1:
		note("First")
		return c.First(), h.want.First()
	case r < 2:
		note("Last")
		return c.Last(), h.want.Last()
	case r < 6:
		k := randomKey(h.rng, h.style)
		note("SeekGE(%q)", k)
		return c.SeekGE(k), h.want.SeekGE(k)
	case r < 10:
		k := randomKey(h.rng, h.style)
		note("SeekLT(%q)", k)
		return c.SeekLT(k), h.want.SeekLT(k)
	case r < 11:
		h.randomBounds()
		note("SetBounds(%q, %q)", h.lower, h.upper)
		c.SetBounds(h.lower, h.upper)
		h.want.SetBounds(h.lower, h.upper)
		return c.Valid(), false
	case r < 26:
		note("Next")
		return c.Next(), h.want.Next()
	default:
		note("Prev")
		return c.Prev(), h.want.Prev()
	}
}

// check says how the cursor differs from the model's after a move.
func (h *history) check(c *Cursor, got, want bool) string {
	switch {
	case got != want || c.Valid() != want:
		return fmt.Sprintf("returned %v, Valid %v, want %v", got, c.Valid(), want)
	case !want:
		if c.Key() != nil || c.Value() != nil {
			return "key or value while not valid"
		}
		return ""
	}
	if string(c.Key()) != h.want.Key() || string(c.Value()) != h.want.Value() {
		return fmt.Sprintf("at %q=%q, want %q=%q", c.Key(), c.Value(), h.want.Key(), h.want.Value())
	}
	return ""
}

func TestCursorAgainstModel(t *testing.T) {
	reused := new(Cursor)
	for seed := range uint64(testseed.Scale(1000, 2000, 6000)) {
		h := newHistory(t, seed)
		c := reused
		if seed%2 == 0 {
			c = NewCursor(h.cmp, h.sources, h.seq, h.lower, h.upper)
		} else {
			c.Reset(h.cmp, h.sources, Options{Seq: h.seq, Lower: h.lower, Upper: h.upper,
				Merge: appendOperator})
		}
		for range 120 {
			got, want := h.op(c)
			if bad := h.check(c, got, want); bad != "" {
				t.Fatalf("seed %d (%s, %d sources, %d entries): %s\nbounds %q %q seq %d\n%v", seed,
					h.cmp.Name, len(h.sources), len(h.model.Entries()), bad, h.lower, h.upper,
					h.seq, h.log)
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
			if ts, ok := s.(*model.Source); ok && h.rng.IntN(2) == 0 {
				ts.FailAfter = h.rng.IntN(30)
			}
		}
		c := NewCursor(h.cmp, h.sources, h.seq, h.lower, h.upper)
		for range 60 {
			got, want := h.op(c)
			if c.Err() != nil {
				if !errors.Is(c.Err(), model.ErrInjected) {
					t.Fatalf("seed %d: %v", seed, c.Err())
				}
				if got || c.Valid() || c.Next() || c.Prev() ||
					!errors.Is(c.Err(), model.ErrInjected) {
					t.Fatalf("seed %d: valid after an error", seed)
				}
				failures++
				h.log = append(h.log, "failed")
				h.want.Unposition()
				continue
			}
			if bad := h.check(c, got, want); bad != "" {
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
