package tree

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/base/mergeop"
)

// unwatched is a Watch without effect. An iterator that has one is not lazy.
type unwatched struct{}

func (unwatched) Forward(_, _, _ []byte)  {}
func (unwatched) Backward(_, _, _ []byte) {}
func (unwatched) Next(_, _ []byte)        {}
func (unwatched) Prev(_, _ []byte)        {}

// pair is a lazy iterator and one that has its sources from the beginning.
type pair struct {
	lazy, eager Iterator
}

// both makes the same move, and reports the name of a difference afterwards.
func (p *pair) both(move func(it *Iterator) bool) string {
	ok, want := move(&p.lazy), move(&p.eager)
	switch {
	case ok != want || p.lazy.Valid() != p.eager.Valid():
		return fmt.Sprintf("moved: %v, want %v", ok, want)
	case string(p.lazy.Key()) != string(p.eager.Key()):
		return fmt.Sprintf("key %q, want %q", p.lazy.Key(), p.eager.Key())
	case string(p.lazy.Value()) != string(p.eager.Value()):
		return fmt.Sprintf("value %q, want %q", p.lazy.Value(), p.eager.Value())
	case fmt.Sprint(p.lazy.Err()) != fmt.Sprint(p.eager.Err()):
		return fmt.Sprintf("error %v, want %v", p.lazy.Err(), p.eager.Err())
	}
	return ""
}

// TestSeekExact makes random moves of a lazy iterator and of one that always merges, over versions,
// deletions, range tombstones and operands in several memtables, at present and in snapshots, while
// more is written.
func TestSeekExact(t *testing.T) {
	op, _ := mergeop.Named("append")
	exacts := uint64(0)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := newMerging(t, base.Bytewise, op)
		n := 1 + rng.IntN(30)
		key := func() []byte { return fmt.Appendf(nil, "key%02d", rng.IntN(n)) }
		write := func() {
			k, v := string(key()), fmt.Sprint("value", m.last)
			kinds := []base.Kind{base.KindSet, base.KindSet, base.KindSet, base.KindDelete,
				base.KindMerge, base.KindRangeDelete}
			kind := kinds[rng.IntN(len(kinds)-int(seed%3))]
			switch kind {
			case base.KindDelete:
				v = ""
			case base.KindRangeDelete:
				v = k[:3] + string('0'+byte(rng.IntN(4))) + "5"
				if v <= k {
					return
				}
			}
			m.last++
			if err := m.tree.Add(m.last, kind, []byte(k), []byte(v)); err != nil {
				t.Fatal(err)
			}
			m.Seqs.Publish(m.last)
			if rng.IntN(50) == 0 {
				m.rotate(t, m.tree, uint64(m.last))
			}
		}
		var snap Snapshot
		m.Seqs.Open(&snap)
		for range 30 {
			for range rng.IntN(60) {
				write()
			}
			if rng.IntN(4) == 0 {
				snap.Close()
				snap = Snapshot{}
				m.Seqs.Open(&snap)
			}
			o := IterOptions{KeysOnly: rng.IntN(4) == 0}
			if rng.IntN(3) == 0 {
				o.Snapshot = &snap
			}
			if rng.IntN(4) == 0 {
				o.Lower, o.Upper = key(), key()
			}
			var p pair
			m.tree.Init(&p.lazy, &o)
			o.Watch = unwatched{}
			m.tree.Init(&p.eager, &o)
			for range 12 {
				k := key()
				moves := []func(it *Iterator) bool{
					func(it *Iterator) bool { return it.SeekGE(k) },
					func(it *Iterator) bool { return it.SeekGE(k) },
					func(it *Iterator) bool { return it.SeekGE(it.Key()) },
					func(it *Iterator) bool { return it.SeekGE(append(it.Key(), 0)) },
					func(it *Iterator) bool { return it.SeekGE(it.Value()) },
					(*Iterator).Next, (*Iterator).Prev,
					func(it *Iterator) bool { it.SetBounds(nil, k); return false },
					func(it *Iterator) bool { return it.SeekLT(k) },
					(*Iterator).First,
				}
				if rng.IntN(3) == 0 {
					write()
				}
				p.lazy.scan.luck = 1
				before := p.lazy.exacts
				if diff := p.both(moves[rng.IntN(5+rng.IntN(2)*(len(moves)-5))]); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
				if p.lazy.exacts > before {
					exacts++
				}
			}
			if err := p.lazy.Close(); err != nil {
				t.Fatal(err)
			}
			if err := p.eager.Close(); err != nil {
				t.Fatal(err)
			}
		}
		snap.Close()
		m.tree.Close()
	}
	if exacts < 200 {
		t.Errorf("%d seeks found their key by a point read", exacts)
	}
}

// TestSeekExactPaysOff: where seeks find no key, or iterators move on from it, few seeks look for
// the key itself; where they do not, all do.
func TestSeekExactPaysOff(t *testing.T) {
	if invariants.Enabled {
		t.Skip("all seeks are tried in builds that check invariants")
	}
	h := newHouse(t)
	tree := h.open(0, 1)
	defer tree.Close()
	for i := range 100 {
		h.put(t, tree, fmt.Sprintf("key%02d", i), "value")
	}
	const seeks = 1000
	s := new(scan)
	count := func(key string, moves bool) (exacts uint64) {
		for range seeks {
			var it Iterator
			tree.Init(&it, &IterOptions{})
			it.scan = s
			it.cursor = &s.cursor
			it.cursor.Hide()
			it.SeekGE([]byte(key))
			exacts += it.exacts
			if moves {
				it.Next()
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return exacts
	}
	if n := count("key50", false); n != seeks {
		t.Errorf("%d of %d seeks to keys that are there were point reads", n, seeks)
	}
	if n := count("key50", true); n > seeks/10 {
		t.Errorf("%d of %d seeks followed by moves were point reads", n, seeks)
	}
	s.luck = 0
	if count("key505", false); s.luck != -maxLuck {
		t.Errorf("luck is %d after seeks to keys that are not there", s.luck)
	}
	if n := count("key50", false); n < seeks/4 || n == seeks {
		t.Errorf("%d of %d seeks were point reads, after others that failed", n, seeks)
	}
}
