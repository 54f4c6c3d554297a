package memtable

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestRangeDelsBesideReaders: a reader sees every tombstone up to its sequence number, whether a
// reader or the writer cuts the fragments.
func TestRangeDelsBesideReaders(t *testing.T) {
	const keys, writes = 1 << 12, 5000
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	var covered [keys]atomic.Uint64 // by the newest tombstone over each key
	var published atomic.Uint64
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(r)))
			for seq := uint64(0); seq < writes; {
				i := rng.IntN(keys)
				least := covered[i].Load()
				seq = published.Load()
				got := m.CoveredAt(MakeLookup(base.Bytewise, key(i), base.SeqNum(seq)))
				if uint64(got) > seq || least <= seq && uint64(got) < least {
					t.Errorf("key %d at %d is covered by %d, by %d at least", i, seq, got, least)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(2, 3))
	for seq := uint64(1); seq <= writes; seq++ {
		from := rng.IntN(keys)
		to := min(from+rng.IntN(1<<rng.IntN(10)), keys)
		if err := m.Add(base.SeqNum(seq), base.KindRangeDelete, key(from), key(to)); err != nil {
			t.Error(err)
			break
		}
		for i := from; i < to; i++ {
			covered[i].Store(seq)
		}
		published.Store(seq)
	}
	wg.Wait()
	for i := range covered {
		if got := m.CoveredAt(MakeLookup(base.Bytewise, key(i), base.MaxSeqNum)); uint64(got) !=
			covered[i].Load() {
			t.Fatalf("key %d is covered by %d, want %d", i, got, covered[i].Load())
		}
	}
	if m.Len() != writes || m.MemoryUsage() == 0 {
		t.Errorf("%d operations in %d bytes", m.Len(), m.MemoryUsage())
	}
}

// TestNestedRangeDels: tombstones over one another make the memtable want its flush before they
// take much memory, with no reader there.
func TestNestedRangeDels(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	n := 0
	for ; !m.WantsFlush() && n < 1<<14; n++ {
		start, limit := binary.BigEndian.AppendUint32(nil,
			uint32(n)), binary.BigEndian.AppendUint32(nil, uint32(1<<20-n))
		if err := m.Add(base.SeqNum(n+1), base.KindRangeDelete, start, limit); err != nil {
			t.Fatal(err)
		}
	}
	if !m.WantsFlush() || m.MemoryUsage() > 64<<20 {
		t.Errorf("after %d nested tombstones it wants a flush: %v, with %d bytes", n,
			m.WantsFlush(), m.MemoryUsage())
	}
}
