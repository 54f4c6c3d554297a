package memtable

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/offheap"
)

// An entry in the arena, packed without alignment, little-endian:
//
//	trailer u64 | key length u32 | value length u32 | links? | key | value
//
// linked in the trailer's kind says that links are there, which is so when the
// key had an older entry:
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

	// Huge pages are asked for when the arena has grown this far: a table with
	// a few entries stays small.
	hugeFrom = 1 << 20
)

const (
	guessEntry    = 128  // bytes, when nothing is known
	minEntryGuess = 24   // below this the index would outgrow the arena
	maxEntryGuess = 1024 // so that a bad guess still leaves a useful table
	minArena      = 64 << 10
	minSlots      = 512
)

// sizes of a table's memory in bytes and slots.
type sizes struct {
	arena  int
	nslots uint64
}

// sizeFor aims at an index half full when the arena is full.
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

// memory is a table's arena and hash index. A slot is 0 or tag<<32 | offset of
// the newest entry of a key; the tag is the upper half of the key's hash and
// also decides where probing begins. Only the writer stores.
type memory struct {
	arena      []byte
	slotMem    []byte
	base       unsafe.Pointer // of arena
	slots      unsafe.Pointer // of slotMem
	nslots     uint64
	maxEntries int64
}

func newMemory(s sizes) (*memory, error) {
	m := &memory{nslots: s.nslots, maxEntries: maxArena}
	var err error
	if m.arena, err = allocate(s.arena); err != nil {
		return nil, err
	}
	m.base = unsafe.Pointer(unsafe.SliceData(m.arena))
	if s.nslots > 0 {
		if m.slotMem, err = allocate(int(s.nslots * 8)); err != nil {
			m.free()
			return nil, err
		}
		m.slots = unsafe.Pointer(unsafe.SliceData(m.slotMem))
		m.maxEntries = int64(s.nslots / 100 * 85)
	}
	return m, nil
}

func (m *memory) free() {
	release(m.arena)
	release(m.slotMem)
	*m = memory{}
}

func (m *memory) adviseHuge() {
	offheap.AdviseHuge(m.arena)
	offheap.AdviseHuge(m.slotMem)
}

// links is what an entry says of its key's older entries; zero for none.
type links struct{ older, jump, depth uint32 }

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
	return entry{trailer: base.Trailer(t &^ linked), key: k, value: v, end: v + binary.LittleEndian.Uint32(h[12:])}
}

func (e *entry) valueOf(m *memory) []byte {
	if e.trailer.Kind() == base.KindDelete {
		return nil
	}
	return m.arena[e.value:e.end:e.end]
}

// key of the entry at off.
func (m *memory) key(off uint32) []byte {
	h := (*[headerLen]byte)(unsafe.Add(m.base, int(off)))
	k := headerLen
	if h[0]&linked != 0 {
		k = maxHeader
	}
	return unsafe.Slice((*byte)(unsafe.Add(m.base, int(off)+k)), int(binary.LittleEndian.Uint32(h[8:])))
}

// links of the entry at off; zero when it is its key's oldest.
func (m *memory) links(off uint32) links {
	if m.u64(off)&linked == 0 {
		return links{}
	}
	return links{m.u32(off + 16), m.u32(off + 20), m.u32(off + 24)}
}

// linksTo are the links of an entry that goes before the one at old. The jumps
// form a skew-binary list (Myers, "An applicative random-access stack", 1983).
func (m *memory) linksTo(old uint32) links {
	p := m.links(old)
	l := links{older: old, jump: old, depth: p.depth + 1}
	if p.jump != 0 {
		q := m.links(p.jump)
		r := links{}
		if q.jump != 0 {
			r = m.links(q.jump)
			if p.depth-q.depth == q.depth-r.depth {
				l.jump = q.jump
			}
		}
	}
	return l
}

// olderThan finds the newest entry behind off with a sequence of at most seq,
// given that sequences only fall along the chain; 0 for none.
func (m *memory) olderThan(off uint32, seq base.SeqNum) uint32 {
	for {
		l := m.links(off)
		if l.older == 0 {
			return 0
		}
		if m.trailer(l.jump).Seq() > seq {
			off = l.jump
			continue
		}
		if m.trailer(l.older).Seq() <= seq {
			return l.older
		}
		off = l.older
	}
}

// newestOf looks through the whole chain of a table whose sequences do not only
// rise.
func (m *memory) newestOf(off uint32, seq base.SeqNum) uint32 {
	best, bestTrailer := uint32(0), base.Trailer(0)
	for ; off != 0; off = m.links(off).older {
		if t := m.trailer(off); t.Seq() <= seq && (best == 0 || t > bestTrailer) {
			best, bestTrailer = off, t
		}
	}
	return best
}

func (m *memory) home(hash uint64) uint64 {
	hi, _ := bits.Mul64(hash&^(1<<32-1), m.nslots)
	return hi
}
