package cache

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/offheap"
)

// Bounds on what one allocation does for others before it takes what it finds.
const (
	maxKept  = 24 // frames given a second chance
	maxSkips = 64 // pinned frames passed over
	maxCopy  = 8  // bytes moved, as a multiple of the bytes asked for
)

// shard is a ring of frames. Offsets are into Cache.mem. The ring is
// [lo, hi); [pos, end) in it is free and holds nothing of interest, and both
// [lo, pos) and [end, hi) are tiled by headers with what they describe. New
// frames go to pos; what stands from end on is the oldest.
type shard struct {
	c     *Cache
	lo    int64        // constant
	max   int64        // constant: the ring never exceeds lo+max
	limit atomic.Int64 // where the ring should end; hi follows

	mu        sync.Mutex // guards all below
	hi        int64
	pos, end  int64
	used      int64 // bytes of live frames
	touched   int64 // end of the memory that has been written
	huge      bool  // huge pages have been asked for
	inserts   int64
	evictions int64
	moves     int64
	_         [64]byte
}

// fits reports whether a frame of need bytes may stand in the ring.
func (s *shard) fits(need int64) bool { return need <= (s.limit.Load()-s.lo)/2 }

// bump allocates from memory that was never used, or fails.
func (s *shard) bump(need int64) (off int64, ok bool) {
	if s.end != s.hi {
		return 0, false
	}
	if limit := s.limit.Load(); s.hi < limit {
		s.hi, s.end = limit, limit
	}
	if s.end-s.pos < need || !s.fits(need) {
		return 0, false
	}
	return s.take(need), true
}

// take makes a private frame of the first need bytes of the gap.
func (s *shard) take(need int64) (off int64) {
	off = s.pos
	s.pos += need
	s.touched = max(s.touched, s.pos)
	if !s.huge && s.pos-s.lo > hugeFrom {
		s.huge = true
		offheap.AdviseHuge(s.c.mem[s.lo : s.lo+s.max])
	}
	h := s.c.header(off)
	h.slot.Store(0)
	h.state.Store(pinOne | specialBit)
	h.size = uint32(need / unit)
	h.flags = flagLive
	s.used += need
	s.inserts++
	return off
}

// alloc makes room for a frame of need bytes, or fails when that would take
// too long because what is in the way is pinned.
func (s *shard) alloc(need int64) (off int64, ok bool) {
	kept, skips, wraps, copied := 0, 0, 0, int64(0)
	for s.end-s.pos < need {
		if s.end == s.hi {
			if limit := s.limit.Load(); s.hi < limit {
				s.hi, s.end = limit, limit
				continue
			}
			if wraps++; wraps > 2 {
				return 0, false
			}
			s.wrap()
			continue
		}
		h := s.c.header(s.end)
		size := int64(h.size) * unit
		switch s.examine(h, s.end, kept < maxKept && copied < maxCopy*need) {
		case drop:
			s.end += size
		case keep:
			kept++
			gap := s.end - s.pos
			if gap <= size/16 { // moving is not worth it
				s.skip(size)
				break
			}
			copied += size
			s.slide(h, size)
		case busy:
			if skips++; skips > maxSkips {
				return 0, false
			}
			s.skip(size)
		}
	}
	return s.take(need), true
}

type verdict uint8

const (
	drop verdict = iota // free, or freed by examine
	keep                // read since the hand came by; its CLOCK bit is still set
	busy                // pinned
)

// examine decides about the frame or free memory h at off.
func (s *shard) examine(h *header, off int64, mayKeep bool) verdict {
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
		if w&locMask != loc || w&specialBit != 0 || w>>pinShift != 0 {
			return busy
		}
		if mayKeep && w&clockBit != 0 {
			return keep
		}
		if slot.CompareAndSwap(w, 0) {
			s.bury(h)
			s.evictions++
			return drop
		}
	}
}

// bury turns a frame that nobody can reach any more into free memory.
func (s *shard) bury(h *header) {
	h.flags = 0
	s.used -= int64(h.size) * unit
}

// skip leaves what stands at end, size bytes, in place and goes on behind it.
func (s *shard) skip(size int64) {
	if slot := s.c.header(s.end).slot.Load(); slot != 0 {
		slotAt(slot).And(^uint64(clockBit))
	}
	s.fill()
	s.pos = s.end + size
	s.end = s.pos
}

// fill writes a header over the gap, so that the tiling is whole.
func (s *shard) fill() {
	if s.pos == s.end {
		return
	}
	h := s.c.header(s.pos)
	h.slot.Store(0)
	h.flags = 0
	h.size = uint32((s.end - s.pos) / unit)
}

// slide moves the published frame h at end, size bytes, down to pos.
func (s *shard) slide(h *header, size int64) {
	slot := slotAt(h.slot.Load())
	w := slot.Load()
	if w&locMask != locOf(s.end) || w&specialBit != 0 || w>>pinShift != 0 {
		s.skip(size)
		return
	}
	from := unsafe.Slice((*byte)(unsafe.Pointer(h)), size)
	to := unsafe.Slice((*byte)(unsafe.Pointer(s.c.header(s.pos))), size)
	moved := locOf(s.pos)
	s.moves++
	if s.end-s.pos >= size {
		// The copy does not overlap: readers may go on until the swap.
		copy(to, from)
		if !slot.CompareAndSwap(w, moved) {
			s.skip(size)
			return
		}
	} else {
		// It does: nobody may read meanwhile, so the block is not cached for a
		// moment. Somebody else may then publish it again.
		if !slot.CompareAndSwap(w, 0) {
			s.skip(size)
			return
		}
		copy(to, from)
		for {
			w := slot.Load()
			if w&(locMask|specialBit) != 0 {
				s.bury(s.c.header(s.pos))
				s.end += size
				return
			}
			if slot.CompareAndSwap(w, w+moved) {
				break
			}
		}
	}
	s.pos += size
	s.end += size
}

// wrap takes the hand from the end of the ring to its start.
func (s *shard) wrap() {
	s.fill()
	s.pos, s.end = s.lo, s.lo
	if s.hi > s.limit.Load() {
		s.shrink()
	}
}

// shrink drops what lies beyond the limit, and gives the memory back. What is
// pinned there keeps the ring long until the hand comes round again.
func (s *shard) shrink() {
	limit := s.limit.Load()
	if s.hi <= limit {
		return
	}
	old := s.hi
	s.hi = limit
	var cut *header // free memory that straddles the limit
	var cutAt int64
	part := func(from, to int64) {
		for off := from; off < to; {
			h := s.c.header(off)
			next := off + int64(h.size)*unit
			if next > limit {
				if s.examine(h, off, false) != drop {
					s.hi = max(s.hi, next)
				} else if off < limit {
					cut, cutAt = h, off
				}
			}
			off = next
		}
	}
	if s.pos > limit {
		part(s.lo, s.pos)
	}
	part(s.end, old)
	if cut != nil && s.hi == limit {
		cut.size = uint32((limit - cutAt) / unit)
	}
	s.pos, s.end = min(s.pos, s.hi), min(s.end, s.hi)
	if s.touched > s.hi {
		offheap.Release(s.c.mem[s.hi:min(old, s.touched)])
		s.touched = s.hi
	}
}

// drop turns the frame at off, whose last pin is gone and which no slot shows
// any more, into free memory.
func (c *Cache) drop(off int64) {
	s := &c.shards[off/c.shards[0].max]
	s.mu.Lock()
	h := c.header(off)
	h.slot.Store(0)
	s.bury(h)
	if s.used == 0 {
		// Nothing is left: start afresh, with untouched memory if it is worth it.
		s.pos, s.end = s.lo, s.hi
		if s.touched-s.lo > hugeFrom {
			offheap.Release(c.mem[s.lo:s.touched])
			s.touched = s.lo
		}
	}
	s.mu.Unlock()
}
