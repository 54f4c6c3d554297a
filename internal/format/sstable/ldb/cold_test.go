package ldb

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
)

func coldKey(dst []byte, i int) []byte { return fmt.Appendf(dst[:0], "%016d", 3*i) }

// coldValue is 100 bytes that compress to half.
func coldValue(i int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	half := make([]byte, 50)
	for j := range half {
		half[j] = byte(rng.Uint32())
	}
	return append(half, half...)
}

// coldTable has n entries of 100 bytes, one in ten a tombstone.
func coldTable(t *testing.T, n int) []byte {
	out := new(memory)
	w := NewWriter(out, sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 4096,
		RestartInterval: 16, Compression: sstable.Snappy})
	defer w.Close()
	var key []byte
	for i := range n {
		key = coldKey(key, i)
		kind, value := base.KindSet, coldValue(i)
		if i%10 == 9 {
			kind, value = base.KindDelete, nil
		}
		if err := w.Add(key, base.MakeTrailer(base.SeqNum(i+1), kind), 0, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(out.Bytes())
}

// TestGetWithFullCache: where the cache is full, Gets answer out of the rows and
// leave the cache as it is; a block that is read again soon is put into the cache;
// damage is a corruption that names file and block.
func TestGetWithFullCache(t *testing.T) {
	const n = 60000 // of 100 bytes: four times the cache
	file := coldTable(t, n)
	c := cache.New(2 << 20)
	defer c.Unref()
	r, err := Open(fileOf(file), Env{Name: "000007.ldb", Cache: c, Comparer: base.Bytewise})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var key []byte
	dst := make([]byte, 0, 256)
	get := func(i int) {
		t.Helper()
		key = coldKey(key, i)
		l := base.MakeLookup(base.Bytewise, key, base.MaxSeqNum)
		v, hit, found, err := r.Get(l, 0, dst)
		if err != nil || !found || hit.Trailer.Seq() != base.SeqNum(i+1) {
			t.Fatalf("entry %d: %v %v %v", i, hit.Trailer, found, err)
		}
		if i%10 == 9 {
			if hit.Trailer.Kind() != base.KindDelete || len(v) != 0 {
				t.Fatalf("entry %d is %v %q", i, hit.Trailer, v)
			}
		} else if !bytes.Equal(v, coldValue(i)) {
			t.Fatalf("entry %d has another value", i)
		}
		key = append(key, '5') // lies in the same block or between two
		v, hit, found, err = r.Get(base.MakeLookup(base.Bytewise, key, base.MaxSeqNum), 0, dst)
		if err != nil || found || len(v) != 0 || hit.Trailer != 0 {
			t.Fatalf("after entry %d: %q %v %v", i, v, found, err)
		}
		// A version that is older than all is not there.
		if _, _, found, err := r.Get(base.MakeLookup(base.Bytewise, key[:16], base.SeqNum(i)), 0,
			dst); found || err != nil {
			t.Fatalf("entry %d at an older sequence number: %v %v", i, found, err)
		}
	}
	for i := 0; i < n; i += 31 {
		get(i)
	}
	if st := c.Stats(); st.Used < st.Capacity/2 {
		t.Fatalf("the cache is not full: %+v", st)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		get(rng.IntN(n))
	}

	// One Get of each of many blocks: no allocation, and hardly an insertion.
	before := c.Stats()
	block := 0
	lookup := func() {
		// Blocks 17 apart: each comes again after the ghosts have forgotten it.
		block = (block + 17) % r.Props().Blocks
		v, hit, found, err := r.GetAt(sstable.Position(block),
			base.MakeLookup(base.Bytewise, r.Index.View.Key(block), base.MaxSeqNum), 0, dst)
		if err != nil || found && hit.Trailer.Kind() == base.KindSet && len(v) != 100 {
			t.Fatal(found, err)
		}
	}
	if a := testing.AllocsPerRun(4*r.Props().Blocks, lookup); a != 0 && !invariants.Enabled {
		t.Errorf("%v allocations per Get", a)
	}
	after := c.Stats()
	if gets := after.Hits +
		after.Misses - before.Hits - before.Misses; after.Inserts-before.Inserts > gets/4 {
		t.Errorf("%d Gets put %d blocks into the cache", gets, after.Inserts-before.Inserts)
	}

	// A block that is asked for again is cached after the second time at the latest.
	for b := range 50 {
		if r.Slots.Touch(b) {
			continue
		}
		for range 2 {
			if _, _, _, err := r.GetAt(sstable.Position(b),
				base.MakeLookup(base.Bytewise, r.Index.View.Key(b), base.MaxSeqNum), 0, dst); err !=
				nil {
				t.Fatal(err)
			}
		}
		if !r.Slots.Touch(b) {
			t.Errorf("block %d is not cached after two reads", b)
		}
	}

	damageCold(t, r, file, rng)
}

// damageCold damages blocks that are not cached.
func damageCold(t *testing.T, r *Reader, file []byte, rng *rand.Rand) {
	damaged := 0
	for b := r.Props().Blocks / 2; damaged < 50; b++ {
		if r.Slots.Touch(b) {
			continue
		}
		damaged++
		h := r.Index.Handle(b)
		at := h.Offset + rng.Uint64N(h.Length)
		file[at] ^= 1 << rng.IntN(8)
		_, _, found, err := r.GetAt(sstable.Position(b),
			base.MakeLookup(base.Bytewise, r.Index.View.Key(b), base.MaxSeqNum), 0, nil)
		var corruption *base.Corruption
		if found || !errors.As(err, &corruption) || corruption.File != "000007.ldb" ||
			corruption.Offset != int64(h.Offset) {
			t.Fatalf("damage at %d in the block at %d: %v, %v", at, h.Offset, found, err)
		}
	}
}
