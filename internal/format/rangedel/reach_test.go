package rangedel

import (
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestReach compares CoveredTo and CoveredFrom with a walk over the spans.
func TestReach(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	for range 300 {
		var frags []Fragment
		at := byte(0)
		for n := 1 + rng.IntN(40); len(frags) < n; {
			at += byte(rng.IntN(5) / 4 * 2)
			seqs := []base.SeqNum{base.SeqNum(1 + rng.IntN(9))}
			if rng.IntN(3) == 0 {
				seqs = []base.SeqNum{seqs[0] + 5, seqs[0]}
			}
			frags = append(frags, Fragment{[]byte{at}, []byte{at + 2}, seqs})
			at += 2
		}
		l, ok := New(base.Bytewise, frags)
		if !ok {
			t.Fatal(frags)
		}
		for range 100 {
			key, seq := []byte{byte(rng.IntN(int(at) + 3))}, base.SeqNum(rng.IntN(16))
			var to, from []byte
			for s := l.SpanAt(key, seq); s.Seq != 0; s = l.SpanAt(to, seq) {
				to = s.Limit
			}
			for s := l.SpanBefore(key, seq); s.Seq != 0; s = l.SpanBefore(from, seq) {
				from = s.Start
			}
			if got := l.CoveredTo(key, seq); string(got) != string(to) ||
				(got == nil) != (to == nil) {
				t.Fatalf("%v: covered from %v on, at %d, to %v, want %v", frags, key, seq, got, to)
			}
			if got := l.CoveredFrom(key, seq); string(got) != string(from) ||
				(got == nil) != (from == nil) {
				t.Fatalf("%v: covered before %v, at %d, from %v, want %v", frags, key, seq, got,
					from)
			}
		}
	}
}
