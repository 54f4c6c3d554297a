package memtable

import (
	"encoding/binary"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// An entry in the arena, packed without alignment, little-endian:
//
//	trailer u64 | key length u32 | value length u32 | links? | key | value
//
// linked in the trailer's kind is set if the entry has links, which is so when the key had an older
// entry:
//
//	older u32 | jump u32 | depth u32
//
// older is the key's entry before this one. jump leads to one further back,
// chosen so that any sequence is found in O(log versions) steps. depth counts
// the entries before. All of an entry is written before its index slot (or the
// table's end) is stored atomically, and never changes.
const (
	headerLen = 16
	linksLen  = 12
	maxHeader = headerLen + linksLen
	linked    = 0x80

	// Offset 0 stands for none.
	arenaStart = 8
	maxArena   = 1<<32 - 64<<10

	// Huge pages are asked for when the arena has grown this far, in bytes: a
	// memtable with a few entries stays small.
	hugeFrom = 1 << 20
)

const (
	guessEntry    = 128  // bytes, when nothing is known
	minEntryGuess = 24   // below this the index would outgrow the arena
	maxEntryGuess = 1024 // a bad guess still leaves a useful memtable
	minArena      = 64 << 10
	minSlots      = 512

	// A memtable begins with minArena bytes and minSlots slots, unless the one before was Large:
	// many only ever get a few entries. The arena doubles, or grows by growArena if that is less;
	// the index takes slotGrowth times the slots when it is half full, so that few slots are ever
	// moved. A Small memtable begins with leastSlots, and takes twice the slots up to minSlots.
	growArena  = 8 << 20
	leastSlots = 32
	slotGrowth = 8
	// Where all memory is allocated at once, the index still begins with one of firstSlots parts of
	// the slots: while there are few entries, Gets of other keys stay within the processor's cache.
	firstSlots = 64
	// From half of an index's capacity on, the next one is touched in pieces of aheadPiece bytes,
	// if it has aheadFrom at least: so no write waits for all of its page faults.
	aheadPiece = 128 << 10
	aheadFrom  = 1 << 20
	// A key further from its home slot than maxProbe makes the index grow or the
	// memtable count as full. With a good hash that is as unlikely as a full index.
	maxProbe = 1024
)

// sizes are what a memtable's memory may grow to, in bytes and slots.
type sizes struct {
	arena  int
	nslots uint64
}

// sizeFor makes the index half full when the arena is full.
func sizeFor(size int64, entrySize int, hashed bool) sizes {
	a := min(max(size, minArena), maxArena)
	if entrySize <= 0 {
		entrySize = guessEntry
	}
	entrySize = min(max(entrySize, minEntryGuess), maxEntryGuess)
	s := sizes{arena: int(a)}
	if hashed {
		s.nslots = max(uint64(2*a)/uint64(entrySize), minSlots)
	}
	return s
}

// sizeForBatch is for a memtable that takes one batch.
func sizeForBatch(n int64, entries int, hashed bool) (sizes, bool) {
	need := uint64(n) + uint64(entries)*maxHeader + arenaStart
	if n > maxArena || uint64(entries) > maxArena/2 || need > maxArena {
		return sizes{}, false
	}
	s := sizes{arena: int(need)}
	if hashed {
		s.nslots = max(2*uint64(entries), minSlots)
	}
	return s, true
}

// memory is a memtable's arena and hash index. A slot is 0 or tag<<32 | offset of
// the newest entry of a key; the tag is the upper half of the key's hash and
// also decides where probing begins. Only the writer stores.
//
// The fields of a memory do not change: when the index grows, the memtable gets
// another memory with the same arena. A reader that holds the old one finds in it all
// entries that were complete when it took it.
type memory struct {
	arena  []byte // with the length that it may grow to; only written entries are mapped
	base   unsafe.Pointer
	slots  unsafe.Pointer
	nslots uint64
}

// space is the memory that the writer has for entries.
type space struct {
	planned sizes
	spare   *arena.Spare
	filled  bool // Options.Filled
	small   bool // Options.Small
	arena   *arena.Extent
	index   []byte // the slots
	// spareIndex came with the arena from spare, and is used when the index has all of its slots.
	spareIndex []byte
	recycled   bool // arena came from spare, and has had pages everywhere
	// ahead is the next index, of which so many bytes have been touched.
	ahead   []byte
	touched int
	// outgrown frees indexes and arenas that were replaced, which readers may use
	// until the memtable goes.
	outgrown []func()

	maxEntries int64 // at which the index, as it is, is full
	// checkAt is maxEntries, or less where a piece of the next index is due to be touched.
	checkAt int64
	crowded bool // a key is far from its home
}

// free gives the memory to sp, or frees it. used bytes of the arena were written.
func (s *space) free(sp *arena.Spare, used uint64) {
	index := s.index
	if s.spareIndex != nil {
		arena.Free(index)
		index = s.spareIndex
	}
	if !sp.Give(s.arena, index, used) {
		s.arena.Free() // which may be nil
		arena.Free(index)
	}
	arena.Free(s.ahead)
	for _, f := range s.outgrown {
		f()
	}
	*s = space{}
}

// grow makes room for n entries and the arena's first `bytes` bytes, both within
// the plan. It returns the memory to use from now on. When the system refuses, the
// one before stays good.
func (s *space) grow(m *memory, bytes uint64, n int64, whole bool) (*memory, error) {
	next := *m
	switch {
	case s.arena == nil:
		if err := s.begin(bytes, whole); err != nil {
			return m, err
		}
		next.arena = s.arena.Whole()
		next.base = unsafe.Pointer(unsafe.SliceData(next.arena))
	case bytes > uint64(s.arena.Len()):
		if err := s.extend(int(bytes)); err != nil {
			return m, err
		}
	}
	nslots := s.slotsFor(m.nslots, n, whole)
	if nslots != m.nslots {
		index, err := s.newIndex(nslots)
		if err != nil {
			return &next, err
		}
		next.slots, next.nslots = unsafe.Pointer(unsafe.SliceData(index)), nslots
		next.takeOver(m)
		if old := s.index; old != nil {
			s.outgrown = append(s.outgrown, func() { arena.Free(old) })
		}
		s.index = index
	}
	s.maxEntries = s.capacity(nslots)
	s.checkAt = s.maxEntries
	if size := 8 * s.slotsFor(nslots, s.maxEntries+1, whole); size > 8*nslots &&
		size >= aheadFrom && size != uint64(len(s.spareIndex)) {
		s.checkAt /= 2
	}
	return &next, nil
}

// slotsFor is how many slots the index has for n entries, where it has so many now.
func (s *space) slotsFor(nslots uint64, n int64, whole bool) uint64 {
	least, growth := uint64(minSlots), uint64(slotGrowth)
	switch {
	case whole:
		least, growth = max(minSlots, s.planned.nslots/firstSlots), firstSlots*2
	case s.small:
		least = leastSlots
	}
	nslots = max(nslots, min(least, s.planned.nslots))
	for n > s.capacity(nslots) && nslots < s.planned.nslots {
		by := growth
		if nslots < minSlots {
			by = 2
		}
		nslots = min(nslots*by, s.planned.nslots)
	}
	return nslots
}

// touchAhead touches a piece of the index that comes after one of nslots slots, if the n-th entry
// is one at which that is due. A lack of memory is no error yet.
func (s *space) touchAhead(nslots uint64, n int64, whole bool) {
	if n <= s.checkAt || n > s.maxEntries {
		return
	}
	if s.ahead == nil {
		index, err := s.newIndex(s.slotsFor(nslots, s.maxEntries+1, whole))
		if err != nil {
			s.checkAt = s.maxEntries
			return
		}
		s.ahead, s.touched = index, 0
	}
	for end := min(s.touched+aheadPiece, len(s.ahead)); s.touched < end; s.touched += 4 << 10 {
		s.ahead[s.touched] = 0
	}
	pieces := int64(len(s.ahead)-s.touched+aheadPiece-1) / aheadPiece
	s.checkAt = n + (s.maxEntries-n)/(pieces+1)
}

// begin has an arena for bytes, or one that is as large as is planned.
func (s *space) begin(bytes uint64, whole bool) (err error) {
	size := min(max(int(bytes), minArena), s.planned.arena)
	if whole {
		size = s.planned.arena
	}
	if s.filled {
		if s.arena, s.spareIndex = s.spare.Take(s.planned.arena,
			int(s.planned.nslots*8)); s.arena != nil {
			s.recycled = true
			return nil
		}
		s.arena, s.recycled, err = s.spare.NewExtent(size, s.planned.arena)
		return err
	}
	s.arena, err = arena.NewExtent(size, s.planned.arena)
	return err
}

// extend has an arena of n bytes or more.
func (s *space) extend(n int) error {
	if s.filled {
		moved, err := s.spare.Grow(s.arena, n)
		s.recycled = s.recycled || moved
		return err
	}
	have := s.arena.Len()
	return s.arena.Grow(min(max(n, have+min(have, growArena)), s.planned.arena))
}

// newIndex allocates nslots slots, unless they are those of the spare memory or those ahead.
func (s *space) newIndex(nslots uint64) ([]byte, error) {
	if ahead := s.ahead; ahead != nil {
		s.ahead = nil
		if uint64(len(ahead)) == nslots*8 {
			return ahead, nil
		}
		arena.Free(ahead)
	}
	if index := s.spareIndex; uint64(len(index)) == nslots*8 {
		s.spareIndex = nil
		return index, nil
	}
	index, err := arena.Alloc(int(nslots * 8))
	// Without huge pages each page of an index costs two faults, the first one for the read that
	// finds a slot empty; the second one interrupts the other processors.
	if err == nil && len(index) >= hugeFrom && s.index != nil {
		offheap.AdviseHuge(index)
	}
	return index, err
}

// capacity is how many entries so many slots take before there must be more.
func (s *space) capacity(nslots uint64) int64 {
	switch {
	case s.planned.nslots == 0:
		return maxArena // no index
	case nslots < s.planned.nslots:
		return int64(nslots / 2)
	}
	return int64(nslots / 100 * 85)
}

func (m *memory) u64(off uint32) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(m.base, int(off)))[:])
}

func (m *memory) u32(off uint32) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(m.base, int(off)))[:])
}

// trailer of the entry at off, without the linked bit.
func (m *memory) trailer(off uint32) base.Trailer { return base.Trailer(m.u64(off) &^ linked) }

// write lays down an entry and returns its length.
func (m *memory) write(off uint32, t base.Trailer, l links, key, value []byte) uint64 {
	b := m.arena[off:]
	at := headerLen
	if l.older != 0 {
		t |= linked
		at = maxHeader
		binary.LittleEndian.PutUint32(b[16:], l.older)
		binary.LittleEndian.PutUint32(b[20:], l.jump)
		binary.LittleEndian.PutUint32(b[24:], l.depth)
	}
	binary.LittleEndian.PutUint64(b, uint64(t))
	binary.LittleEndian.PutUint32(b[8:], uint32(len(key)))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(value)))
	at += copy(b[at:], key)
	at += copy(b[at:], value)
	return uint64(at)
}

// entry is a decoded header.
type entry struct {
	trailer         base.Trailer
	key, value, end uint32 // offsets
}

func (m *memory) entry(off uint32) entry {
	h := (*[headerLen]byte)(unsafe.Add(m.base, int(off)))
	t := binary.LittleEndian.Uint64(h[:])
	k := off + headerLen
	if t&linked != 0 {
		k += linksLen
	}
	v := k + binary.LittleEndian.Uint32(h[8:])
	return entry{trailer: base.Trailer(t &^ linked), key: k, value: v,
		end: v + binary.LittleEndian.Uint32(h[12:])}
}

func (e *entry) valueOf(m *memory) []byte {
	if !e.trailer.Kind().HasValue() {
		return nil
	}
	return m.arena[e.value:e.end:e.end]
}

// hit is the answer of a Get that found the entry at off; 0: none.
func (m *memory) hit(off uint32) (value []byte, h Hit, found bool) {
	if off == 0 {
		return nil, Hit{}, false
	}
	e := m.entry(off)
	return e.valueOf(m), Hit{e.trailer, off}, true
}

// key of the entry at off.
func (m *memory) key(off uint32) []byte {
	h := (*[headerLen]byte)(unsafe.Add(m.base, int(off)))
	k := headerLen
	if h[0]&linked != 0 {
		k = maxHeader
	}
	return unsafe.Slice((*byte)(unsafe.Add(m.base, int(off)+k)),
		int(binary.LittleEndian.Uint32(h[8:])))
}
