package lsm

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestKeysChosenByTheirHashes writes keys whose hashes begin with zeros, which anybody can compute:
// all of them belong to a table's sample of keys, however coarse it is.
func TestKeysChosenByTheirHashes(t *testing.T) {
	for _, large := range []int64{0, 1} {
		db := mustOpen(t, t.TempDir(), &Options{LargeValue: large})
		const n = 1100
		for i := range n {
			if err := db.Put(keyOfHash(t, uint64(i)), []byte("v"), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		mustFlush(t, db)
		mustCompact(t, db)
		for i := range n {
			if v, err := db.Get(keyOfHash(t, uint64(i)), nil); string(v) != "v" {
				t.Fatalf("key %d: %q, %v", i, v, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// keyOfHash is the key of eight bytes whose base.Hash, XXH64, is h.
func keyOfHash(t *testing.T, h uint64) []byte {
	t.Helper()
	const (
		p1 = 11400714785074694791
		p2 = 14029467366897019727
		p3 = 1609587929392839161
		p4 = 9650029242287828579
		p5 = 2870177450012600261
	)
	inverse := func(odd uint64) uint64 { // modulo 1<<64, by Newton's method
		x := odd
		for range 6 {
			x *= 2 - odd*x
		}
		return x
	}
	x := h ^ h>>32
	x *= inverse(p3)
	x ^= x>>29 ^ x>>58
	x *= inverse(p2)
	x ^= x >> 33
	x = bits.RotateLeft64((x-p4)*inverse(p1), -27) ^ (p5 + 8)
	x = bits.RotateLeft64(x*inverse(p1), -31) * inverse(p2)
	key := binary.LittleEndian.AppendUint64(nil, x)
	if got := base.Hash(key); got != h {
		t.Fatalf("the hash is %x, not %x", got, h)
	}
	return key
}
