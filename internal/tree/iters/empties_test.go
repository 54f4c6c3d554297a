package iters

import (
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/tree/empties"
)

// known is Empties of a history that are right, and learn.
type known struct {
	t      *testing.T
	h      *history
	live   [][]byte
	set    empties.Set
	ranges int // of the last move
	used   int // of all moves
}

// expiry is when something had expired in each range.
const expiry = 7

func (k *known) Within(key []byte) *empties.Fact {
	return k.set.Find(k.h.cmp, key, &empties.View{Now: expiry})
}

func (k *known) Edge(end bool) *empties.Fact {
	return k.set.Edge(end, &empties.View{Now: expiry})
}

func (k *known) Count(_, ranges int) { k.ranges, k.used = ranges, k.used+ranges }

func (k *known) Passed(r *empties.Range, dead int, _, expired bool) {
	f := &empties.Fact{Range: *r, View: empties.View{Now: expiry}, Dead: dead}
	f.Lo, f.Hi = slices.Clone(r.Lo), slices.Clone(r.Hi)
	var s empties.Set
	s.Add(k.h.cmp, f)
	for _, key := range k.live {
		if s.Find(k.h.cmp, key, &f.View) != nil {
			k.t.Fatalf("%q is in what was passed over: %q\n%v", key, [][]byte{f.Lo, f.Hi}, k.h.log)
		}
	}
	if k.ranges > 0 && !expired {
		k.t.Fatal("what had expired in a known-empty range is forgotten")
	}
	k.set.Add(k.h.cmp, f)
}

// newKnown makes a range of most of the gaps between keys with values, whole or a part of it.
func newKnown(t *testing.T, h *history) *known {
	k := &known{t: t, h: h}
	c := h.model.Cursor(h.seq, nil, nil)
	for ok := c.First(); ok; ok = c.Next() {
		k.live = append(k.live, []byte(c.Key()))
	}
	for i := range len(k.live) + 1 {
		r := empties.Range{FromStart: i == 0, LoOpen: true, ToEnd: i == len(k.live), HiOpen: true}
		if i > 0 {
			r.Lo = k.live[i-1]
		}
		if i < len(k.live) {
			r.Hi = k.live[i]
		}
		in := func(key []byte) bool {
			return (r.FromStart || h.cmp.Cmp(r.Lo, key) < 0) &&
				(r.ToEnd || h.cmp.Cmp(key, r.Hi) < 0)
		}
		key := randomKey(h.rng, h.style)
		if h.upper != nil && h.rng.IntN(2) == 0 {
			key = h.upper
		}
		if in(key) {
			r.Lo, r.LoOpen, r.FromStart = key, h.rng.IntN(2) == 0, false
		}
		if key := randomKey(h.rng, h.style); in(key) {
			r.Hi, r.HiOpen, r.ToEnd = key, h.rng.IntN(2) == 0, false
		}
		if h.rng.IntN(4) > 0 && !r.Empty(h.cmp) {
			k.set.Add(h.cmp, &empties.Fact{Range: r, View: empties.View{Now: expiry},
				Dead: 1 + h.rng.IntN(9)})
		}
	}
	return k
}

// TestCursorInEmptyRanges compares a cursor that begins in known-empty ranges, goes past others and
// learns with one that looks at all entries.
func TestCursorInEmptyRanges(t *testing.T) {
	first, dead := firstLook, minDead
	firstLook, minDead = 1, 1
	t.Cleanup(func() { firstLook, minDead = first, dead })
	used := 0
	for seed := range uint64(1000) {
		h := newHistory(t, seed)
		k := newKnown(t, h)
		c := new(Cursor)
		c.Reset(h.cmp, h.sources, Options{Seq: h.seq, Lower: h.lower, Upper: h.upper,
			Merge: appendOperator, Empties: k, Again: h.seq < base.MaxSeqNum})
		for range 60 {
			got, want := h.op(c)
			switch h.rng.IntN(40) { // the empty key is the last one of some orders
			case 0:
				got, want = c.SeekGE(nil), h.want.SeekGE(nil)
			case 1:
				got, want = c.SeekLT(nil), h.want.SeekLT(nil)
			}
			if bad := h.check(c, got, want); bad != "" {
				t.Fatalf("seed %d (%s): %s\nbounds %q %q seq %d\n%v", seed, h.cmp.Name, bad,
					h.lower, h.upper, h.seq, h.log)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		used += k.used
	}
	if used < 4000 {
		t.Errorf("%d ranges were used", used)
	}
}
