package memtable

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// seed is this process's own: nobody can choose keys that collide in the index.
// Hashes that go to disk are base.Hash.
var seed = maphash.MakeSeed()

// hashKey is the hash of a user key in the index.
func hashKey(key []byte) uint64 { return maphash.Bytes(seed, key) }

// MakeLookup makes a Lookup for memtables.
func MakeLookup(c *base.Comparer, key []byte, seq base.SeqNum) base.Lookup {
	l := base.HashedLookup(key, 0, seq)
	if c.EqualIsBytewise {
		l.Hash = hashKey(key)
	}
	return l
}

func (m *memory) slot(i uint64) *uint64 { return (*uint64)(unsafe.Add(m.slots, int(i*8))) }

func (m *memory) home(hash uint64) uint64 {
	hi, _ := bits.Mul64(hash&^(1<<32-1), m.nslots)
	return hi
}

// find probes for key. It returns the newest entry of it, or 0 and the empty slot
// where probing ended. The index is never full, so there is one.
func (m *memory) find(key []byte, hash uint64) (slot uint64, off uint32) {
	tag := hash >> 32
	i := m.home(hash)
	for {
		s := atomic.LoadUint64(m.slot(i))
		if s == 0 {
			return i, 0
		}
		if s>>32 == tag && string(m.key(uint32(s))) == string(key) {
			return i, uint32(s)
		}
		if i++; i == m.nslots {
			i = 0
		}
	}
}

// distance is how far a slot is from the home of its hash.
func (m *memory) distance(slot, hash uint64) uint64 {
	d := slot - m.home(hash)
	if int64(d) < 0 {
		d += m.nslots
	}
	return d
}

// setSlot makes the entry at off the newest of its key: the one store that
// readers of the index wait for.
func (m *memory) setSlot(i, hash uint64, off uint32) {
	atomic.StoreUint64(m.slot(i), hash&^(1<<32-1)|uint64(off))
}

// touch loads the first slot that a probe for hash looks at into the processor's
// cache. The load is atomic so that the compiler keeps it.
func (m *memory) touch(hash uint64) { atomic.LoadUint64(m.slot(m.home(hash))) }

// Hint is a MemTable without a reference. Nothing can be read through it.
type Hint MemTable

// Hint returns one that may be kept when the MemTable goes.
func (m *MemTable) Hint() *Hint { return (*Hint)(m) }

// PrefetchWrite starts loading into the processor's cache the slot of the index that a write of key
// will look at. It does not wait, and touches no memory that may be freed: the processor ignores a
// prefetch of an address that is not mapped.
func (m *Hint) PrefetchWrite(key []byte) {
	if mem := m.mem.Load(); m.hashed && mem.nslots != 0 {
		offheap.Prefetch(unsafe.Pointer(mem.slot(mem.home(hashKey(key)))), 8)
	}
}

// takeOver fills the index from a smaller one. Home slots ascend with the hash, so
// both indexes are passed through from front to back.
func (m *memory) takeOver(old *memory) {
	for i := range old.nslots {
		s := *old.slot(i)
		if s == 0 {
			continue
		}
		j := m.home(s)
		for *m.slot(j) != 0 {
			if j++; j == m.nslots {
				j = 0
			}
		}
		*m.slot(j) = s
	}
}
