package cache

import (
	"sync"

	"github.com/loamdb/loam/internal/base/invariants"
)

// A shard with room for it puts new frames into a small ring; those that are
// read again before they reach its end, or soon after, move on to the main
// ring. A block that is read once passes through a tenth of the memory and does not
// touch the rest (S3-FIFO; Yang et al., SOSP 2023). In place of S3-FIFO's queue of
// ghosts, the slot of an evicted block keeps the time of its eviction.
const (
	smallShare = 10      // the small ring is 1/smallShare of a shard
	minSplit   = 1 << 20 // a shard below this has the main ring only
	// deadShare: once 1/deadShare of the main ring is freed frames, new frames
	// go there at once.
	deadShare = 5
	// ghostTicks is how many ticks of a shard make one turnover of its main
	// ring by insertions, which is how long a ghost counts.
	ghostTicks = 4
)

// shard is a part of the cache with a lock of its own.
type shard struct {
	c *Cache

	mu      sync.Mutex // guards all below, but see ring
	small   ring
	main    ring
	inserts int64
	ticked  int64 // bytes inserted since the last tick
	_       [64]byte
}

func (s *shard) init(c *Cache, lo, size int64) {
	s.c = c
	small := int64(0)
	if size >= minSplit {
		small = size / smallShare &^ (unit - 1)
	}
	s.small.init(c, lo, small)
	s.main.init(c, lo+small, size-small)
}

// size is how many bytes the shard may have.
func (s *shard) size() int64 { return s.small.max + s.main.max }

// fit makes size bytes the room of the shard, as far as it has them.
func (s *shard) fit(size int64, shared bool) {
	full := s.size()
	size = min(size, full)
	if size < full {
		// Coarse steps of whole units, rounded down, because each step down walks a ring.
		size -= size % max(full/64&^(unit-1), unit)
	}
	// The small ring is a tenth of the whole shard, unless less than that is left.
	r := &s.main
	limit := r.lo + max(size-s.small.max, 0)
	if shared && size < full && full >= 8*hugePage {
		// No huge page is used in part: the system would make it whole again.
		limit = max(limit&^(hugePage-1), r.lo)
	}
	s.resize(r, limit)
	s.resize(&s.small, s.small.lo+min(s.small.max, size))
}

// resize changes where a ring ends: behind a whole number of units, as its headers tile it.
func (s *shard) resize(r *ring, limit int64) {
	if invariants.Enabled {
		invariants.Check((limit-r.lo)%unit == 0, "cache: a ring of %d bytes", limit-r.lo)
	}
	if old := r.limit.Swap(limit); limit < old {
		s.mu.Lock()
		r.shrink()
		s.mu.Unlock()
	}
}

// bump allocates memory that was not used before. It fails when the ring is full or the
// system refuses memory.
func (s *shard) bump(need int64) (off int64, ok, full bool) {
	if !s.main.bump(need) {
		return 0, false, true
	}
	if off, ok = s.main.take(need); ok {
		s.inserts++
	}
	return off, ok, false
}

// alloc allocates by evicting, or fails.
func (s *shard) alloc(need int64) (off int64, ok bool) {
	if off, ok, _ = s.bump(need); ok {
		return off, true
	}
	compact := s.main.dead() >= (s.main.hi-s.main.lo)/deadShare
	r := &s.main
	if compact || !s.small.fits(need) {
		ok = r.advance(need, compact, 0, nil)
	} else {
		r = &s.small
		s.tick(need)
		ok = r.advance(need, false, s.c.ghost(), s.promote)
	}
	if !ok {
		return 0, false
	}
	if off, ok = r.take(need); ok {
		s.inserts++
	}
	return off, ok
}

// admits reports whether a frame of need bytes whose block no ghost knows should be
// allocated: it evicts nothing, or the shard remembers no ghosts. If not, need counts
// towards the age of ghosts.
func (s *shard) admits(need int64) bool {
	if s.small.max == 0 || s.main.dead() >= (s.main.hi-s.main.lo)/deadShare || s.main.bump(need) ||
		s.small.bump(need) {
		return true
	}
	s.tick(need)
	return false
}

// spare is how many bytes alloc can return before it evicts anything.
func (s *shard) spare() (n int64) {
	r := &s.main
	if r.end == r.hi {
		n = r.end - r.pos
	}
	n += max(r.limit.Load()-r.hi, 0)
	return n + max(r.dead()-(r.hi-r.lo)/deadShare, 0)
}

// tick advances the age of ghosts.
func (s *shard) tick(n int64) {
	if s.ticked += n; s.ticked >= s.main.max/ghostTicks {
		s.ticked = 0
		s.c.age.Add(1)
	}
}

// promote moves the published frame h at off from the small ring to the main
// one. It reports false when the frame has been pinned.
func (s *shard) promote(h *header, off int64) bool {
	size := int64(h.size) * unit
	slot := slotAt(h.slot.Load())
	w := slot.Load()
	if !idle(w, locOf(off)) {
		return false
	}
	s.main.moves++
	to, ok := int64(0), s.main.advance(size, false, 0, nil)
	if ok {
		to, ok = s.main.take(size)
	}
	if !ok {
		if !slot.CompareAndSwap(w, 0) {
			return false
		}
		s.small.bury(h)
		return true
	}
	h.moveTo(s.c.header(to), size)
	if !slot.CompareAndSwap(w, locOf(to)) {
		n := s.c.header(to)
		n.slot.Store(0)
		s.main.bury(n)
		return false
	}
	s.small.bury(h)
	return true
}

// ghost is the value of the slot of a block that is evicted now.
func (c *Cache) ghost() uint64 {
	return (uint64(c.age.Load())%ages + 1) << ageShift
}

// returns reports whether a block whose slot is w was evicted recently.
func (c *Cache) returns(w uint64) bool {
	a := w & ageMask >> ageShift
	if a == 0 {
		return false
	}
	now := uint64(c.age.Load())%ages + 1
	return (now+ages-a)%ages <= uint64(ghostTicks*len(c.shards))
}

// drop frees the frame at off, see ring.drop.
func (c *Cache) drop(off int64) {
	s := &c.shards[off/c.shards[0].size()]
	s.mu.Lock()
	r := &s.main
	if off < r.lo {
		r = &s.small
	}
	r.drop(c.header(off))
	s.mu.Unlock()
}
