package memtable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestSkip: a source leaves out only entries that Skip allows, while entries are inserted, and does
// leave out hidden ones.
func TestSkip(t *testing.T) {
	left := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := New(Options{Comparer: base.Bytewise, Size: 8 << 20, Ordered: seed%2 == 0})
		seq, keys := base.SeqNum(0), 1+rng.IntN(4000)
		put := func() {
			seq++
			if err := m.Add(seq, base.KindSet,
				binary.BigEndian.AppendUint32(nil, uint32(rng.IntN(keys))), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 3000 {
			put()
		}
		hidden := seq + 1 // what is older may be left out
		for range rng.IntN(1 << rng.IntN(10)) {
			put()
		}
		var all []base.SeqNum // by order of keys
		sameKeys := map[base.SeqNum]string{}
		every, now := seed%3 != 0, seq // all versions, or what is visible now
		plain := m.newSource(every, now)
		if err := base.Scan(plain, func(e *base.Chunk) error {
			for i, tr := range e.Trailers {
				all = append(all, tr.Seq())
				sameKeys[tr.Seq()] = string(e.Key(i))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		plain.Close()

		src := m.newSource(every, now)
		var e base.Chunk
		at := 0
		var limit []byte // of the last Skip; nil: nothing may be missing
		i, err := src.First(&e)
		for ok := i >= 0; ok && err == nil; ok, err = src.Next(&e) {
			for _, tr := range e.Trailers {
				if _, ok := sameKeys[tr.Seq()]; !ok && !every && tr.Seq() < hidden {
					continue // older than a version that was left out
				}
				for ; all[at] != tr.Seq(); at++ {
					if limit == nil || sameKeys[all[at]] >= string(limit) || all[at] >= hidden {
						t.Fatalf("seed %d: entry %d of key %x is missing", seed, all[at],
							sameKeys[all[at]])
					}
					left++
				}
				at++
			}
			for range rng.IntN(3) {
				put() // splits leaves beside the source
			}
			if limit = nil; rng.IntN(3) > 0 {
				last := binary.BigEndian.Uint32(e.Key(e.Len() - 1))
				limit = binary.BigEndian.AppendUint32(nil, last+uint32(rng.IntN(1+keys/2)))
				src.(base.Skipper).Skip(limit, hidden)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for ; at < len(all); at++ {
			if limit == nil || sameKeys[all[at]] >= string(limit) || all[at] >= hidden {
				t.Fatalf("seed %d: entry %d of key %x is missing at the end", seed, all[at],
					sameKeys[all[at]])
			}
		}
		src.Close()
		m.Unref()
	}
	if left < 1000 {
		t.Errorf("%d entries were left out", left)
	}
}
