package cache

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// A pin word counts the pins of a frame. It is the slot of a published frame, and the
// state in the header of a private one.
//
//	bits 0..33   slot: place of the frame in units from the base, plus one; 0: none
//	bits 34..43  slot without a frame: when its frame was evicted, 0: unknown
//	bit  44      slot: CLOCK, set by lookups, cleared by the hand
//	bit  45      special: dropping the last pin takes more work, see lastPin. In a
//	             slot: its Slots was freed. In a header: always set.
//	bits 46..63  pins
const (
	locBits    = 34
	locMask    = 1<<locBits - 1
	ageShift   = locBits
	ageMask    = 1<<44 - 1<<ageShift
	ages       = 1<<10 - 1
	clockBit   = 1 << 44
	specialBit = 1 << 45
	pinShift   = 46
	pinOne     = 1 << pinShift
	pinMask    = 1<<64 - pinOne
	// pinLimit stops lookups from pinning long before the count could wrap.
	pinLimit = 1 << 63
	unpin    = ^uint64(pinOne - 1) // added, it takes one pin away
)

// header precedes the bytes of each frame and of each piece of free memory in a ring. size and
// flags are guarded by the shard's lock; len is constant while the frame is pinned. It holds no Go
// pointer: the memory is not the garbage collector's.
type header struct {
	apart
	state atomic.Uint64  // pin word until the frame is published
	slot  atomic.Uintptr // address of the slot; 0 while private; transient: bytes of the memory
	len   int64          // bytes of the frame
	size  uint32         // header and bytes, in units
	flags uint32
}

const (
	headerLen       = int(unsafe.Sizeof(header{}))
	maxFrame  int64 = min(math.MaxInt-int64(headerLen), (1<<32-2)*unit)
)

const (
	flagLive      = 1 << iota // a frame, not free memory
	flagTransient             // memory of its own, outside the rings
)

func (c *Cache) header(off int64) *header {
	return (*header)(unsafe.Add(c.base, off))
}

// locOf is the location bits of the frame at off.
func locOf(off int64) uint64 { return uint64(off/unit) + 1 }

// offsetOf undoes locOf for the location bits in w, which are not 0.
func offsetOf(w uint64) int64 { return int64(w&locMask-1) * unit }

// slotAt is the slot at an address that a header holds. The address is no Go pointer;
// the Slots that owns the memory is alive.
func slotAt(addr uintptr) *atomic.Uint64 {
	return *(**atomic.Uint64)(unsafe.Pointer(&addr))
}

// Frame is a pinned frame of the cache. The zero Frame is not Valid.
type Frame struct {
	c   *Cache
	h   *header
	pin *atomic.Uint64
}

// Valid reports whether f is a frame.
func (f Frame) Valid() bool { return f.h != nil }

// Bytes is the frame's memory, aligned to 8 bytes, until Release.
func (f Frame) Bytes() []byte {
	return unsafe.Slice((*byte)(f.h.start()), f.h.len)
}

// Release drops the pin. The bytes must not be touched after it.
func (f Frame) Release() {
	w := f.pin.Add(unpin)
	if invariants.Enabled {
		invariants.Check(w>>pinShift != 1<<(64-pinShift)-1, "cache: frame released twice")
	}
	if w>>pinShift == 0 && w&specialBit != 0 {
		f.lastPin(w)
	}
}

// lastPin frees a frame whose last pin was dropped, if nothing else will.
func (f Frame) lastPin(w uint64) {
	c := f.c
	switch {
	case f.pin != &f.h.state: // published, in a table that was freed since
		c.drop(offsetOf(w))
		c.mu.Lock()
		s := c.freedSlots(f.pin)
		c.mu.Unlock()
		s.unref()
	case f.h.flags&flagTransient != 0:
		size := int(f.h.slot.Load())
		c.transientBytes.Add(-int64(size))
		offheap.Free(unsafe.Slice((*byte)(unsafe.Pointer(f.h)), size))
	default: // private
		c.drop(int64(uintptr(unsafe.Pointer(f.h)) - uintptr(c.base)))
	}
}
