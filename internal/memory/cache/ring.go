package cache

import (
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// Bounds on the work of one allocation before it takes what it finds.
const (
	maxKept    = 24 // frames given a second chance
	maxSkips   = 64 // pinned frames passed over
	maxCopy    = 8  // bytes moved, as a multiple of the bytes asked for
	maxPromote = 4  // frames moved from the small ring to the main one
)

// ring is a queue of frames in a part of the cache's memory; offsets are into that
// memory. The ring is [lo, hi). [pos, end) in it, the gap, is free; [lo, pos) and [end, hi) are
// tiled by headers and the frames that they describe. New frames go to pos. The
// oldest frames begin at end, where the hand is. The shard's lock guards all but the
// constants and limit.
type ring struct {
	c     *Cache
	lo    int64        // constant
	max   int64        // constant: the ring never exceeds lo+max
	limit atomic.Int64 // where the ring should end; hi follows

	hi        int64
	pos, end  int64
	used      int64 // bytes of live frames
	touched   int64 // end of the memory that has been written
	evictions int64
	moves     int64
}

func (r *ring) init(c *Cache, lo, size int64) {
	r.c, r.lo, r.max = c, lo, size
	r.hi = lo + size
	r.limit.Store(r.hi)
	r.pos, r.end, r.touched = lo, r.hi, lo
}

// fits reports whether a frame of need bytes may stand in the ring.
func (r *ring) fits(need int64) bool { return need <= (r.limit.Load()-r.lo)/2 }

// dead is the bytes of freed frames that the hand has not reached yet.
func (r *ring) dead() int64 { return r.hi - r.lo - (r.end - r.pos) - r.used }

// bump reports whether there is room in the memory at the end of the ring,
// which has not been used since the ring was empty or grew.
func (r *ring) bump(need int64) bool {
	r.grow()
	return r.end == r.hi && r.end-r.pos >= need && r.fits(need)
}

// grow takes the memory up to the limit; the hand goes there at once.
func (r *ring) grow() {
	limit := r.limit.Load()
	if r.hi >= limit {
		return
	}
	if r.end != r.hi {
		r.fill()
		r.pos = r.hi
	}
	r.hi, r.end = limit, limit
}

// take makes a private frame of the first need bytes of the gap, or fails where the
// system has no memory for them.
func (r *ring) take(need int64) (off int64, ok bool) {
	off = r.pos
	if !r.c.extend(off + need) {
		return 0, false
	}
	h := r.c.header(off)
	if !h.allocate(need) {
		return 0, false
	}
	r.pos += need
	r.touched = max(r.touched, r.pos)
	h.slot.Store(0)
	h.state.Store(pinOne | specialBit)
	h.size = uint32(need / unit)
	h.flags = flagLive
	r.used += need
	return off, true
}

// verdict says what happens to the frame or free memory at the hand.
type verdict uint8

const (
	drop verdict = iota // free memory, or freed by evictOrKeep
	keep                // unpinned, and to be kept
	busy                // pinned
)

// advance moves the hand on until the gap holds need bytes, or fails when that
// would take too long because what is in the way is pinned. Frames with the
// CLOCK bit, or all while that is affordable when compact is set, are slid
// together; others are evicted and leave ghost in their slot. With promote,
// kept frames are handed to it instead; it reports whether they are gone.
func (r *ring) advance(need int64, compact bool, ghost uint64,
	promote func(h *header, off int64) bool) bool {
	kept, skips, wraps, copied := 0, 0, 0, int64(0)
	var bits uint64 // what stays of a kept frame's slot
	if compact {
		bits = clockBit
	}
	for r.end-r.pos < need {
		if r.end == r.hi {
			if wraps++; wraps > 2 || !r.wrap() {
				return false
			}
			continue
		}
		h := r.c.header(r.end)
		size := int64(h.size) * unit
		mayKeep := kept < maxKept && copied < maxCopy*need
		if promote != nil {
			mayKeep = kept < maxPromote
		}
		switch r.evictOrKeep(h, r.end, mayKeep, compact, ghost) {
		case drop:
			r.end += size
		case keep:
			kept++
			gap := r.end - r.pos
			switch {
			case promote != nil:
				if promote(h, r.end) {
					r.end += size
				} else {
					r.skip(size, bits)
				}
			case gap <= size/16: // moving it is not worth it
				r.skip(size, bits)
			default:
				copied += size
				r.slide(h, size, bits)
			}
		case busy:
			if skips++; skips > maxSkips {
				return false
			}
			r.skip(size, bits)
		}
	}
	return true
}

// evictOrKeep decides about the frame or free memory h at off.
func (r *ring) evictOrKeep(h *header, off int64, mayKeep, compact bool, ghost uint64) verdict {
	if h.flags&flagLive == 0 {
		return drop
	}
	addr := h.slot.Load()
	if addr == 0 {
		return busy
	}
	slot := slotAt(addr)
	loc := locOf(off)
	for {
		w := slot.Load()
		if !idle(w, loc) {
			return busy
		}
		if mayKeep && (compact || w&clockBit != 0) {
			return keep
		}
		if slot.CompareAndSwap(w, ghost) {
			r.bury(h)
			r.evictions++
			return drop
		}
	}
}

// idle reports whether the slot w shows loc, with no pin, in a table not freed.
func idle(w, loc uint64) bool {
	return w&^(clockBit|ageMask) == loc
}

// bury turns a frame that nobody can reach any more into free memory.
func (r *ring) bury(h *header) {
	h.flags = 0
	h.free()
	r.used -= int64(h.size) * unit
	if invariants.Enabled { // a reader that is still there reads garbage
		b := unsafe.Slice((*byte)(unsafe.Pointer(h)), int64(h.size)*unit)[headerLen:]
		for i := range b {
			b[i] = 0xdb
		}
	}
}

// skip leaves the size bytes at end in place and moves the hand behind them.
// bits is clockBit to leave that as well, else 0.
func (r *ring) skip(size int64, bits uint64) {
	if slot := r.c.header(r.end).slot.Load(); slot != 0 && bits == 0 {
		slotAt(slot).And(^uint64(clockBit))
	}
	r.fill()
	r.pos = r.end + size
	r.end = r.pos
}

// fill writes a header over the gap, so that the tiling is whole.
func (r *ring) fill() {
	if r.pos == r.end {
		return
	}
	h := r.c.header(r.pos)
	h.slot.Store(0)
	h.flags = 0
	h.size = uint32((r.end - r.pos) / unit)
}

// slide moves the published frame h at end, size bytes, down to pos. bits is as
// in skip.
func (r *ring) slide(h *header, size int64, bits uint64) {
	slot := slotAt(h.slot.Load())
	w := slot.Load()
	if !idle(w, locOf(r.end)) {
		r.skip(size, bits)
		return
	}
	to := r.c.header(r.pos)
	if !to.allocate(size) {
		r.skip(size, bits)
		return
	}
	moved := locOf(r.pos) | w&bits
	r.moves++
	if offheap.Unmap || r.end-r.pos >= size {
		// The copy does not overlap: readers may go on until the swap.
		h.moveTo(to, size)
		if !slot.CompareAndSwap(w, moved) {
			to.free()
			r.skip(size, bits)
			return
		}
		h.free()
	} else {
		// The copy overlaps: nobody may read meanwhile, so the block is not cached
		// for a moment. Another reader may publish it again in that moment.
		if !slot.CompareAndSwap(w, 0) {
			r.skip(size, bits)
			return
		}
		h.moveTo(to, size)
		for {
			w := slot.Load()
			if w&(locMask|specialBit) != 0 {
				r.bury(r.c.header(r.pos))
				r.end += size
				return
			}
			if slot.CompareAndSwap(w, w+moved) {
				break
			}
		}
	}
	r.pos += size
	r.end += size
}

// wrap moves the hand from the end of the ring to its start. The gap that it leaves may
// begin just where the memory ends so far; without memory for a header wrap fails.
func (r *ring) wrap() bool {
	if r.pos < r.end && !r.c.extend(r.pos+unit) {
		return false
	}
	r.fill()
	r.pos, r.end = r.lo, r.lo
	r.shrink()
	return true
}

// shrink evicts the frames beyond the limit and frees their memory. Frames that are
// pinned there keep the ring long until the hand comes round again.
func (r *ring) shrink() {
	limit := r.limit.Load()
	if r.hi <= limit {
		return
	}
	old := r.hi
	r.hi = limit
	var cut *header // free memory that straddles the limit
	var cutAt int64
	part := func(from, to int64) {
		for off := from; off < to; {
			h := r.c.header(off)
			next := off + int64(h.size)*unit
			if next > limit {
				if r.evictOrKeep(h, off, false, false, 0) != drop {
					r.hi = max(r.hi, next)
				} else if off < limit {
					cut, cutAt = h, off
				}
			}
			off = next
		}
	}
	if r.pos > limit {
		part(r.lo, r.pos)
	}
	part(r.end, old)
	if cut != nil && r.hi == limit {
		cut.size = uint32((limit - cutAt) / unit)
	}
	r.pos, r.end = min(r.pos, r.hi), min(r.end, r.hi)
	if r.touched > r.hi {
		end := min(old, r.touched)
		if r.c.shared { // the rest of the huge page, which is resident too
			end = max(end, min((end+hugePage-1)&^(hugePage-1), r.lo+r.max, r.c.mapped.Load()))
		}
		offheap.Release(r.c.bytes(r.hi, end-r.hi))
		r.touched = r.hi
	}
}

// drop turns frame h into free memory. REQUIRES: it has no pin, and no slot refers to it.
func (r *ring) drop(h *header) {
	h.slot.Store(0)
	r.bury(h)
	if r.used > 0 {
		return
	}
	// The ring is empty: begin again, with untouched memory if that is worth it.
	r.pos, r.end = r.lo, r.hi
	if r.touched-r.lo > hugeFrom {
		offheap.Release(r.c.bytes(r.lo, r.touched-r.lo))
		r.touched = r.lo
	}
}

func (c *Cache) bytes(off, n int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(c.header(off))), n)
}
