package memtable

import (
	"fmt"
	"math"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
)

// TestBehind: no entry before the place is newer than the number, and few behind it are older. A
// memtable whose entries came in another order has no such places.
func TestBehind(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 8 << 20})
	defer m.Unref()
	const n = 5*markEvery + 10
	add := func(seq base.SeqNum) {
		t.Helper()
		if err := m.Add(seq, base.KindSet, fmt.Appendf(nil, "k%d", seq), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range base.SeqNum(n) {
		add(10 + 2*i)
	}
	for _, seq := range []base.SeqNum{0, 9, 10, 11, 10 + 2*markEvery, 10 + 4*markEvery - 1,
		10 + 2*n, base.MaxSeqNum} {
		place := m.Behind(seq)
		newer, older := 0, 0
		m.Walk(0, func(t base.Trailer, _ []byte, next uint64) bool {
			if next <= place && t.Seq() > seq {
				newer++
			}
			if next > max(place, arenaStart) && t.Seq() <= seq {
				older++
			}
			return true
		})
		if newer > 0 || older > markEvery {
			t.Errorf("at %d: %d newer ones before %d, %d older ones behind", seq, newer, place,
				older)
		}
		from := uint64(m.newerFrom(seq))
		newer, older = 0, 0
		m.Walk(0, func(t base.Trailer, _ []byte, next uint64) bool {
			if next <= from && t.Seq() > seq {
				newer++
			}
			if next > from && t.Seq() <= seq {
				older++
			}
			return true
		})
		if newer > markEvery || older > 0 {
			t.Errorf("at %d: %d newer ones before %d, %d older ones behind", seq, newer, from,
				older)
		}
	}
	add(5)
	if from := m.newerFrom(7); from != math.MaxUint32 {
		t.Errorf("out of order: from %d on", from)
	}
	if place := m.Behind(1 << 40); place != 0 {
		t.Errorf("out of order: %d", place)
	}
}

// TestNewerLeaves: of keys whose newer versions fill leaves a reader finds the old ones, behind a
// key that it was given.
func TestNewerLeaves(t *testing.T) {
	m, o := New(Options{Comparer: base.Bytewise, Size: 8 << 20}), model.New(base.Bytewise)
	defer m.Unref()
	seq := base.SeqNum(0)
	put := func(key string) {
		t.Helper()
		seq++
		if err := m.Add(seq, base.KindSet, []byte(key), nil); err != nil {
			t.Fatal(err)
		}
		o.Add(model.Entry{Key: []byte(key), Trailer: base.MakeTrailer(seq, base.KindSet)})
	}
	for _, key := range []string{"a", "b", "c"} {
		put(key)
	}
	at := seq
	for range 3 * markEvery {
		put("b")
		put("bb")
	}
	src := m.NewSourceAt(at)
	defer src.Close()
	full(t, m.cmp, o.EntriesAt(at), src)
	var e base.Chunk
	if i, err := src.SeekGE([]byte("a"), base.MaxTrailer, &e); i != 0 || err != nil {
		t.Fatal(i, err)
	}
	for n := 1; n < 3; n++ {
		if ok, err := src.Next(&e); !ok || err != nil {
			t.Fatalf("nothing behind %d keys, %v", n, err)
		}
		checkChunk(t, m.cmp, o.EntriesAt(at), &e, n)
		n += e.Len() - 1
	}
}

// TestSourceOfEarlierReader: a reader from before the first entry finds nothing, and nothing is put
// in order for it.
func TestSourceOfEarlierReader(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 8 << 20})
	defer m.Unref()
	for i := range base.SeqNum(3 * markEvery) {
		if err := m.Add(10+i, base.KindSet, fmt.Appendf(nil, "k%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	src := m.NewSourceAt(9)
	full(t, m.cmp, nil, src)
	src.Close()
	if m.Iterated() {
		t.Error("the entries were put in order")
	}
}
