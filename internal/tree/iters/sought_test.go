package iters

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/tree/empties"
)

// told is Empties that know nothing, and note what a cursor passed over.
type told struct {
	dead   int
	passed []empties.Range
}

func (e *told) Within([]byte) *empties.Fact { return nil }

func (e *told) Edge(bool) *empties.Fact { return nil }

func (e *told) Count(dead, _ int) { e.dead += dead }

func (e *told) Passed(r *empties.Range, _ int, _, _ bool) {
	e.passed = append(e.passed, empties.Range{Lo: append([]byte(nil), r.Lo...),
		Hi: append([]byte(nil), r.Hi...), LoOpen: r.LoOpen, HiOpen: r.HiOpen})
}

// TestMost: a move that gives up learned of the keys that it passed over and of no other, although
// the next one, which it did not look at, is visible. Later moves find that.
func TestMost(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "k%04d", i) }
	const n, most = 400, 40
	for live := range n { // the only key with a value
		dead := model.New(base.Bytewise)
		seq := base.SeqNum(1)
		for i := range n {
			e := model.Entry{Key: key(i), Trailer: base.MakeTrailer(seq, base.KindDelete)}
			if i == live {
				e.Trailer = base.MakeTrailer(seq, base.KindSet)
			}
			dead.Add(e)
			seq++
		}
		c, e := new(Cursor), new(told)
		c.Reset(base.Bytewise, []base.Source{model.NewSource(t, base.Bytewise, dead.Entries(),
			model.ChunksOf(n, 7))}, Options{Seq: seq, Empties: e, Most: most})
		for _, move := range []func(*Cursor) bool{(*Cursor).First, (*Cursor).Last} {
			e.dead, e.passed = 0, nil
			found := move(c)
			if found && string(c.Key()) != string(key(live)) || c.Err() != nil {
				t.Fatalf("at %q, %v", c.Key(), c.Err())
			}
			if !found && e.dead < most || e.dead > most+maxLook {
				t.Fatalf("%d passed over", e.dead)
			}
			for _, r := range e.passed {
				lo, hi := string(r.Lo), string(r.Hi)
				k := string(key(live))
				if lo < k && k < hi || lo == k && !r.LoOpen || hi == k && !r.HiOpen {
					t.Fatalf("%q is from %q %v to %q %v", k, lo, r.LoOpen, hi, r.HiOpen)
				}
			}
			if !found && len(e.passed) != 1 {
				t.Fatalf("%d ranges", len(e.passed))
			}
		}
		if !c.SeekGE(key(live)) || !c.SeekLT(key(live+1)) || string(c.Key()) != string(key(live)) {
			t.Fatalf("key %d is lost", live)
		}
		c.Close()
	}
}
