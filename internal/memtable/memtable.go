// Package memtable is the in-memory table that takes writes: entries appended
// to an off-heap arena, a hash index for point reads, and order made lazily, as a
// B+tree of entry offsets.
//
// One goroutine at a time may write (Room, Apply, Add). Get, Prefetch and
// NewSource may run beside it from any number of goroutines; Get takes no lock.
// Whoever uses a table holds a reference, or otherwise knows that one is held.
// A Source is used by one goroutine and holds its own reference.
package memtable

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/invariants"
)

// Options configures a table.
type Options struct {
	Comparer *base.Comparer
	// Size is how many arena bytes the table takes before Room says no.
	Size int64
	// EntrySize is what (*Table).EntrySize said of the previous table; 0 when
	// unknown. It decides how large the hash index is against the arena.
	EntrySize int
	// Ordered puts entries into the tree as they come from the start instead of
	// from the first NewSource.
	Ordered bool
}

// Table is a memtable. See the package comment for who may call what.
type Table struct {
	cmp    *base.Comparer
	hashed bool // the comparer's equality is that of bytes

	// mem is replaced only while the table is empty. The others in replaced
	// may still be looked at by readers and are freed with the table.
	mem      atomic.Pointer[memory]
	replaced []*memory
	memErr   error

	// Writer's side. pos and n run ahead of end and count within a batch.
	pos   uint64
	n     int64
	last  base.Trailer
	huge  bool
	batch []pending

	// end is the arena offset up to which entries are complete.
	end   atomic.Uint64
	count atomic.Int64
	// disorder is set before the first entry whose trailer is not above that
	// of the entry before it becomes visible.
	disorder atomic.Bool

	refs atomic.Int64
	order
}

// pending is an entry of a batch whose index slot has been touched.
type pending struct {
	key, value []byte
	hash       uint64
	kind       base.Kind
}

// applyGroup entries have their index slots touched side by side, so that the
// cache misses overlap.
const applyGroup = 16

// New makes an empty table with one reference. It takes address space, and
// memory only as entries come. When the system refuses, Room says no and Apply
// fails.
func New(o Options) *Table {
	m := &Table{cmp: o.Comparer, hashed: o.Comparer.EqualIsBytewise, pos: arenaStart}
	m.end.Store(arenaStart)
	m.refs.Store(1)
	m.order.init(m, o.Ordered)
	mem, err := newMemory(sizeFor(o.Size, o.EntrySize, m.hashed))
	if err != nil {
		m.memErr = err
		mem = &memory{}
	}
	m.mem.Store(mem)
	return m
}

// Ref adds a reference.
func (m *Table) Ref() { m.refs.Add(1) }

// Unref drops a reference; the last one stops background work and frees the
// memory.
func (m *Table) Unref() {
	n := m.refs.Add(-1)
	invariants.Check(n >= 0, "memtable: Unref without reference")
	if n != 0 {
		return
	}
	m.order.close()
	m.mem.Load().free()
	for _, mem := range m.replaced {
		mem.free()
	}
}

// Room reports whether a batch of n bytes with that many entries fits. An empty
// table makes itself large enough, up to the 4 GiB that offsets reach.
func (m *Table) Room(n int64, entries int) bool {
	if m.memErr != nil || n < 0 || entries < 0 {
		return false
	}
	mem := m.mem.Load()
	if m.fits(mem, n, entries) {
		return true
	}
	if m.n != 0 {
		return false
	}
	s, ok := sizeForBatch(n, entries, m.hashed)
	if !ok {
		return false
	}
	bigger, err := newMemory(s)
	if err != nil {
		return false
	}
	m.replaced = append(m.replaced, mem)
	m.mem.Store(bigger)
	return true
}

// SizeFor is an Options.Size with which a new table has room for a batch of n
// bytes with that many entries. Above 4 GiB - 64 KiB there is none, and Room
// says so.
func SizeFor(n int64, entries int) int64 { return n + int64(entries)*maxHeader + arenaStart }

func (m *Table) fits(mem *memory, n int64, entries int) bool {
	need := uint64(n) + uint64(entries)*maxHeader
	return m.pos+need <= uint64(len(mem.arena)) && m.n+int64(entries) <= mem.maxEntries
}

var errNoRoom = errors.New("loam: no room in the memtable")

// Apply adds the entries of a batch (batchrepr, validated); entry i gets
// sequence seq + i. The caller has asked Room. Readers see the entries one by
// one; the sequence they read at keeps a batch whole.
func (m *Table) Apply(batch []byte, seq base.SeqNum) error {
	n := int(batchrepr.Count(batch))
	mem := m.mem.Load()
	if m.memErr != nil {
		return m.memErr
	}
	if !m.fits(mem, int64(len(batch)), n) {
		return fmt.Errorf("%w: %d bytes, %d entries", errNoRoom, len(batch), n)
	}
	it := batchrepr.Read(batch)
	if n == 1 {
		if kind, key, value, ok := it.Next(); ok {
			m.insert(mem, base.MakeTrailer(seq, kind), key, value, m.hashOf(key))
		}
	} else {
		m.applyMany(mem, &it, seq)
	}
	m.publish(mem)
	return it.Err()
}

func (m *Table) applyMany(mem *memory, it *batchrepr.Iter, seq base.SeqNum) {
	for {
		group := m.batch[:0]
		for len(group) < applyGroup {
			kind, key, value, ok := it.Next()
			if !ok {
				break
			}
			group = append(group, pending{key, value, m.hashOf(key), kind})
		}
		if m.hashed { // a loop of its own: so short that the misses overlap
			for i := range group {
				mem.touch(group[i].hash)
			}
		}
		for i := range group {
			p := &group[i]
			m.insert(mem, base.MakeTrailer(seq, p.kind), p.key, p.value, p.hash)
			seq++
		}
		clear(group) // keep no batch alive
		m.batch = group[:0]
		if len(group) < applyGroup {
			return
		}
	}
}

func (m *Table) hashOf(key []byte) uint64 {
	if m.hashed {
		return base.Hash(key)
	}
	return 0
}

// Add adds one entry. The caller has asked Room.
func (m *Table) Add(seq base.SeqNum, kind base.Kind, key, value []byte) error {
	mem := m.mem.Load()
	if m.memErr != nil {
		return m.memErr
	}
	if !m.fits(mem, int64(len(key)+len(value)), 1) {
		return fmt.Errorf("%w: one entry of %d bytes", errNoRoom, len(key)+len(value))
	}
	m.insert(mem, base.MakeTrailer(seq, kind), key, value, m.hashOf(key))
	m.publish(mem)
	return nil
}

// insert appends an entry and makes it visible to Get.
func (m *Table) insert(mem *memory, t base.Trailer, key, value []byte, hash uint64) {
	if m.n&(chunkEntries-1) == 0 {
		m.order.mark(uint32(m.pos))
	}
	m.n++
	if t <= m.last {
		m.disorder.Store(true)
	}
	m.last = t
	off := uint32(m.pos)
	if !m.hashed {
		m.pos += mem.write(off, t, links{}, key, value)
		return
	}
	slot, old := mem.find(key, hash)
	var l links
	if old != 0 {
		l = mem.linksTo(old)
	}
	m.pos += mem.write(off, t, l, key, value)
	mem.setSlot(slot, hash, off)
}

// publish makes all entries inserted so far visible to sources.
func (m *Table) publish(mem *memory) {
	m.count.Store(m.n)
	m.end.Store(m.pos)
	if !m.huge && m.pos > hugeFrom {
		m.huge = true
		mem.adviseHuge()
	}
	m.order.written(m.n)
}

// Get returns the newest entry of key whose sequence is at most seq. hash is
// base.Hash(key). The value aliases the arena and is nil for a deletion.
func (m *Table) Get(key []byte, hash uint64, seq base.SeqNum) (value []byte, t base.Trailer, found bool) {
	if !m.hashed {
		return m.getOrdered(key, seq)
	}
	mem := m.mem.Load()
	if mem.nslots == 0 {
		return nil, 0, false
	}
	_, off := mem.find(key, hash)
	if off == 0 {
		return nil, 0, false
	}
	if m.disorder.Load() {
		off = mem.newestOf(off, seq)
	} else if mem.trailer(off).Seq() > seq {
		off = mem.olderThan(off, seq)
	}
	if off == 0 {
		return nil, 0, false
	}
	e := mem.entry(off)
	return e.valueOf(mem), e.trailer, true
}

// Prefetch loads the index line that Get will look at.
func (m *Table) Prefetch(hash uint64) {
	if mem := m.mem.Load(); mem.nslots != 0 {
		mem.touch(hash)
	}
}

// Iterated reports whether a source was ever opened.
func (m *Table) Iterated() bool { return m.order.used.Load() }

// Len is the number of entries.
func (m *Table) Len() int { return int(m.count.Load()) }

// Bytes is how much of the arena is filled.
func (m *Table) Bytes() int64 { return int64(m.end.Load() - arenaStart) }

// EntrySize is the average arena bytes of an entry, 0 for an empty table.
func (m *Table) EntrySize() int {
	n := m.count.Load()
	if n == 0 {
		return 0
	}
	return int(m.Bytes() / n)
}

// MemoryUsage is the bytes held: filled arena, index and tree. Index
// pages that no entry has touched yet are counted too.
func (m *Table) MemoryUsage() int64 {
	if m.count.Load() == 0 {
		return 0
	}
	return m.Bytes() + int64(len(m.mem.Load().slotMem)) + m.order.memoryUsage()
}
