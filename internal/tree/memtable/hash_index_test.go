package memtable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// xxhash64's constants, and the inverse of an odd factor.
const (
	prime1 = 0x9e3779b185ebca87
	prime2 = 0xc2b2ae3d27d4eb4f
	prime3 = 0x165667b19e3779f9
	prime4 = 0x85ebca77c2b2ae63
	prime5 = 0x27d4eb2f165667c5
)

func inverse(x uint64) uint64 {
	y := x
	for range 6 {
		y *= 2 - x*y
	}
	return y
}

// keyOf is the key of eight bytes whose xxhash64, with seed 0, is h.
func keyOf(h uint64) []byte {
	unshift := func(h uint64, n int) uint64 {
		for x := h >> n; x != 0; x >>= n {
			h ^= x
		}
		return h
	}
	h = unshift(h, 32) * inverse(prime3)
	h = unshift(h, 29) * inverse(prime2)
	h = unshift(h, 33)
	h = bits.RotateLeft64((h-prime4)*inverse(prime1), -27)
	h ^= prime5 + 8
	h = bits.RotateLeft64(h*inverse(prime1), -31) * inverse(prime2)
	return binary.LittleEndian.AppendUint64(nil, h)
}

// probes is how many slots are looked at for a key, present or not.
func probes(m *MemTable, key []byte) int {
	mem, h := m.mem.Load(), m.hashOf(key)
	n, i := 1, mem.home(h)
	for {
		s := *mem.slot(i)
		if s == 0 || s>>32 == h>>32 && string(mem.key(uint32(s))) == string(key) {
			return n
		}
		if n, i = n+1, i+1; i == mem.nslots {
			i = 0
		}
	}
}

// TestKeysBuiltToMeet adds keys that meet under the hash that goes to disk, which
// anybody can compute: in the index they do not.
func TestKeysBuiltToMeet(t *testing.T) {
	const n = 40_000
	m := New(Options{Comparer: base.Bytewise, Size: 64 << 20})
	defer m.Unref()
	key := func(i int) []byte { return keyOf(7<<56 | uint64(i)) }
	if got := base.Hash(key(5)); got != 7<<56|5 {
		t.Fatalf("the hash is %x: the keys do not meet", got)
	}
	for i := range n {
		if err := m.Add(base.SeqNum(i+1), base.KindSet, key(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	worst := 0
	for i := range 2 * n { // those from n on are missing
		worst = max(worst, probes(m, key(i)))
		if _, _, found := m.Get(MakeLookup(m.cmp, key(i), base.MaxSeqNum)); found != (i < n) {
			t.Fatalf("key %d of %d: found %v", i, n, found)
		}
	}
	if worst > 200 {
		t.Errorf("%d slots are looked at for one key", worst)
	}
}

// TestCrowdedIndex adds keys with one hash, as an attacker who knows the seed could build them: the
// index grows, and then the table counts as full.
func TestCrowdedIndex(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 64 << 20})
	defer m.Unref()
	n := 0
	for ; ; n++ {
		if err := m.Room(100, 1); err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
		if n > 10*maxProbe {
			t.Fatal("still room")
		}
		m.insert(m.mem.Load(), base.MakeTrailer(base.SeqNum(n+1), base.KindSet),
			binary.LittleEndian.AppendUint32(nil, uint32(n)), nil, 7<<56|uint64(n))
		m.publish()
	}
	if n < maxProbe {
		t.Errorf("full with %d entries", n)
	}
	for i := range n {
		if _, _, found := m.Get(base.HashedLookup(binary.LittleEndian.AppendUint32(nil, uint32(i)),
			7<<56, base.MaxSeqNum)); !found {
			t.Fatalf("entry %d is gone", i)
		}
	}
}

// TestCrowdedWithinAGroup makes the index crowded by the first batch of a group for all of which
// there is room: the others fit, and the table is full behind them.
func TestCrowdedWithinAGroup(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	n := int(m.capacity(m.planned.nslots))
	if err := m.Room(0, n); err != nil || m.mem.Load().nslots != m.planned.nslots {
		t.Fatalf("the index has %d of %d slots, %v", m.mem.Load().nslots, m.planned.nslots, err)
	}
	for i := 0; !m.crowded; i++ {
		m.insert(m.mem.Load(), base.MakeTrailer(base.SeqNum(i+1), base.KindSet),
			binary.LittleEndian.AppendUint32(nil, uint32(i)), nil, 7<<56|uint64(i))
	}
	m.publish()
	b := batchrepr.AppendEntry(batchrepr.Init(nil), 0, base.KindSet, []byte("b"), nil)
	if err := m.Apply(b, 2_000); err != nil {
		t.Errorf("a batch of a group for which there was room: %v", err)
	}
	if err := m.Add(2_001, base.KindSet, []byte("c"), nil); err != nil {
		t.Errorf("an entry of a group for which there was room: %v", err)
	}
	if err := m.Room(0, 1); !errors.Is(err, ErrFull) {
		t.Errorf("room behind the group: %v", err)
	}
}

// TestIndexAhead fills memtables whose index grows: the next index is touched from half of the
// capacity on, a piece at a time, and all of it before it is needed. A memtable that ends before,
// or that takes a batch which needs a larger index still, frees it; without memory for it the
// memtable works until the index is needed.
func TestIndexAhead(t *testing.T) {
	add := func(m *MemTable, from, to int64) {
		t.Helper()
		for i := from; i < to; i++ {
			key := binary.BigEndian.AppendUint64(nil, uint64(i))
			if err := m.Add(base.SeqNum(i+1), base.KindSet, key, nil); err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
	}
	growing := func() (m *MemTable, n, full int64) { // with n entries, before the index grows much
		m = New(Options{Comparer: base.Bytewise, Size: 32 << 20})
		for n = 0; m.checkAt == m.maxEntries; n++ {
			add(m, n, n+1)
		}
		return m, n, m.maxEntries
	}
	before := offheap.InUse()
	m, n, full := growing()
	add(m, n, full/2)
	if m.ahead != nil {
		t.Error("an index is there before half of the other one is full")
	}
	most, touched := 0, 0
	for i := full / 2; i < full; i++ {
		add(m, i, i+1)
		most, touched = max(most, m.touched-touched), m.touched
	}
	ahead := m.ahead
	if most != aheadPiece || touched != len(ahead) || len(ahead) < aheadFrom {
		t.Errorf("touched %d bytes of %d, at most %d at a time", touched, len(ahead), most)
	}
	add(m, full, full+1)
	if &m.index[0] != &ahead[0] || m.ahead != nil {
		t.Error("another index is used than the one that was touched")
	}
	for i := range full + 1 {
		key := binary.BigEndian.AppendUint64(nil, uint64(i))
		if _, _, ok := m.Get(MakeLookup(m.cmp, key, base.SeqNum(full+1))); !ok {
			t.Fatalf("entry %d is gone", i)
		}
	}
	m.Unref()

	m, n, full = growing()
	add(m, n, full/2+10)
	m.Unref()

	m, n, full = growing()
	add(m, n, full/2+10)
	m.planned.nslots *= 1000
	if err := m.Room(0, int(full)*slotGrowth*2); err != nil || m.ahead != nil {
		t.Error(m.ahead != nil, err)
	}
	m.Unref()

	if arena.RaceDetector { // there, sizes are not known to the fault
		return
	}
	m, n, full = growing()
	index := 8 * int(m.slotsFor(m.mem.Load().nslots, full+1, false))
	offheap.SetFault(func(n int) error {
		if n == index {
			return errors.New("no memory for an index")
		}
		return nil
	})
	add(m, n, full)
	err := m.Room(0, 1)
	offheap.SetFault(nil)
	if !errors.Is(err, ErrFull) {
		t.Errorf("without memory for the index: %v", err)
	}
	add(m, full, full+1)
	m.Unref()
	if got := offheap.InUse(); got != before {
		t.Errorf("%d bytes are in use, %d before", got, before)
	}
}

// TestFewEntries: memtables with a few entries take little memory, also after one with as few, and
// an account is told no more than that. A database has one in each of its keyspaces, and the memory
// of them all is bounded.
func TestFewEntries(t *testing.T) {
	most := int64(5 << 10)
	if offheap.Unmap { // where an index of any size takes a page
		most = 8 << 10
	}
	shared := budget.NewMemory(64<<20, new(fakeRoom))
	for _, a := range []*budget.Account{nil, shared.Open(func() {})} {
		o := Options{Comparer: base.Bytewise, Size: 64 << 20, Small: true, Account: a}
		for round := range 3 {
			m := New(o)
			for i := range 10 {
				if err := m.Add(base.SeqNum(i+1), base.KindSet, fmt.Append(nil, i),
					make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
			}
			if n := m.MemoryUsage(); n > m.Bytes()+1<<10 {
				t.Errorf("round %d: %d bytes for %d of entries", round, n, m.Bytes())
			}
			o.Follow(m)
			if n := shared.Usage().MemTables; n > most {
				t.Errorf("round %d: the account was told of %d bytes", round, n)
			}
			m.Unref()
		}
	}
}

// fakeRoom is a block cache without blocks.
type fakeRoom struct{ charged int64 }

func (r *fakeRoom) Charge(delta int64)     { r.charged += delta }
func (r *fakeRoom) Tables() int64          { return 0 }
func (r *fakeRoom) Blocks() int64          { return 0 }
func (r *fakeRoom) SetCapacity(int64) bool { return true }
