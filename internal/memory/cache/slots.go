package cache

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/memory/offheap"
)

const wordLen = int(unsafe.Sizeof(atomic.Uint64{}))

// Slots is one table's part of the cache: a word for each of its blocks.
type Slots struct {
	c     *Cache
	words []atomic.Uint64 // off the Go heap, in mem
	mem   []byte
	// refs counts, from Free on, Free itself and the frames still pinned.
	refs  atomic.Int64
	close invariants.CloseOnce
}

// NewSlots makes the slots of a table of n blocks. They count against the
// budget. When the system is out of memory, nothing is cached for the table.
func (c *Cache) NewSlots(n int) *Slots {
	s := &Slots{c: c}
	s.refs.Store(1)
	if n <= 0 || int64(n) > maxFrame/int64(wordLen) || c.base == nil {
		return s
	}
	mem, err := offheap.Alloc(n * wordLen)
	if err != nil {
		return s
	}
	s.mem = mem
	s.words = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem))), n)
	c.Reserve(int64(len(mem)))
	return s
}

// MemoryUsage is the bytes of the slots themselves.
func (s *Slots) MemoryUsage() int64 { return int64(len(s.mem)) }

// Lookup returns the frame of block i, pinned, if it is cached. During the
// microsecond in which the hand moves a frame, it may miss.
func (s *Slots) Lookup(i int) (Frame, bool) {
	f, ok := s.Pin(i)
	if ok {
		s.c.hits.Add(1)
	} else {
		s.c.misses.Add(1)
	}
	return f, ok
}

// Peek is Lookup that counts no miss: its caller calls Lookup after a miss.
func (s *Slots) Peek(i int) (Frame, bool) {
	f, ok := s.Pin(i)
	if ok {
		s.c.hits.Add(1)
	}
	return f, ok
}

// Pin is Lookup that counts nothing: for blocks other than data blocks.
func (s *Slots) Pin(i int) (Frame, bool) {
	if uint(i) >= uint(len(s.words)) {
		return Frame{}, false
	}
	p := &s.words[i]
	w := p.Load()
	if w&locMask == 0 || w >= pinLimit {
		return Frame{}, false
	}
	s.prefetch(w)
	if w = p.Add(pinOne); w&locMask == 0 {
		p.Add(unpin) // evicted in between
		return Frame{}, false
	}
	if w&clockBit == 0 {
		p.Or(clockBit)
	}
	return Frame{c: s.c, h: s.c.header(offsetOf(w)), pin: p}, true
}

// searched bytes at the beginning of a block are usually enough for a search: the
// columns of a View of 4 KiB. Loaded together, they cost one cache miss instead of five
// or six.
const searched = 1280

func (s *Slots) prefetch(w uint64) {
	offheap.Prefetch(unsafe.Pointer(s.c.header(offsetOf(w))), searched)
}

// Missed counts a miss that Peek did not, of a block that was then read elsewhere.
func (s *Slots) Missed() { s.c.misses.Add(1) }

// Touch reports whether block i is cached, without pinning or counting it, and starts
// loading what a search in it looks at into the processor's cache. Several Touches
// before several Lookups make their cache misses overlap.
func (s *Slots) Touch(i int) bool {
	if uint(i) >= uint(len(s.words)) {
		return false
	}
	w := s.words[i].Load()
	if w&locMask == 0 {
		return false
	}
	s.prefetch(w)
	return true
}

// Has reports whether block i is cached, and does nothing else.
func (s *Slots) Has(i int) bool {
	return uint(i) < uint(len(s.words)) && s.words[i].Load()&locMask != 0
}

// Cached is how many of the table's blocks are cached.
func (s *Slots) Cached() (n int) {
	for i := range s.words {
		if s.words[i].Load()&locMask != 0 {
			n++
		}
	}
	return n
}

// Admit reports whether block i, which was read from its file, should be put into the
// cache: if there is room for its n bytes or the block was evicted or refused
// recently. Otherwise it is refused: it would take the place of a block that is as
// likely to be read again, and its slot keeps the time.
func (s *Slots) Admit(i, n int) bool {
	if uint(i) >= uint(len(s.words)) {
		return false // Publish would not take it
	}
	p := &s.words[i]
	w := p.Load()
	if w&locMask != 0 || s.c.returns(w) || s.c.admits(int64(n)) {
		return true
	}
	// An eviction, or another reader, may have changed the slot: its ghost is as good.
	p.CompareAndSwap(w, w&^ageMask|s.c.ghost())
	return false
}

// AdmitSearched is Admit of a block that was searched without the cache at little more cost than
// with it, in a mapped file. A full cache admits it later: one in eight of these reads counts.
// So a block that is read again and again gets in, and others do not pay for a View.
func (s *Slots) AdmitSearched(i, n int) bool {
	const countOne = 8
	if int(s.c.filling.Load()) >= len(s.c.shards) && rand.Uint32()%countOne != 0 {
		return false
	}
	return s.Admit(i, n)
}

// Publish makes lookups of block i find frame f, which comes from Alloc and is filled. It
// takes f over and returns the pinned frame to use: f, or the frame of an earlier caller, or f
// still private if it cannot be cached.
func (s *Slots) Publish(i int, f Frame) Frame {
	if uint(i) >= uint(len(s.words)) {
		return f
	}
	p := &s.words[i]
	h := f.h
	if h.flags&flagTransient != 0 || h.state.Load()>>pinShift != 1 {
		if other, ok := s.Pin(i); ok {
			f.Release()
			return other
		}
		return f
	}
	loc := locOf(int64(uintptr(unsafe.Pointer(h)) - uintptr(s.c.base)))
	// The hand skips a frame whose slot refers to another one.
	h.slot.Store(uintptr(unsafe.Pointer(p)))
	for {
		w := p.Load()
		if w&locMask == 0 {
			// Pins in an empty slot are lookups about to take them back.
			next := w&pinMask + pinOne + loc
			if s.c.returns(w) {
				next |= clockBit
			}
			if p.CompareAndSwap(w, next) {
				f.pin = p
				return f
			}
			continue
		}
		if other, ok := s.Pin(i); ok {
			h.slot.Store(0)
			f.Release()
			return other
		}
		if w >= pinLimit {
			h.slot.Store(0)
			return f
		}
	}
}

// Free evicts the table's frames; a pinned one goes at its last Release. No other method
// of s may run beside Free or after it.
func (s *Slots) Free() {
	s.close.Close()
	c := s.c
	if s.words == nil {
		return
	}
	c.mu.Lock()
	c.freed = append(c.freed, s)
	c.mu.Unlock()
	for i := range s.words {
		p := &s.words[i]
		if w := p.Load(); w&locMask == 0 && p.CompareAndSwap(w, w|specialBit) {
			continue // empty, or being moved: then the hand will find the bit set
		}
		s.refs.Add(1)
		old := p.Or(specialBit)
		if old>>pinShift != 0 {
			continue // its last Release frees it
		}
		if old&locMask != 0 {
			c.drop(offsetOf(old))
		}
		s.unref()
	}
	// After this no hand is about to put a moved frame back into a slot.
	for i := range c.shards {
		c.shards[i].mu.Lock()
		c.shards[i].mu.Unlock() //lint:ignore SA2001 a barrier
	}
	s.unref()
}

// unref frees the words when neither Free nor a pinned frame needs them.
func (s *Slots) unref() {
	if s.refs.Add(-1) != 0 {
		return
	}
	c := s.c
	c.mu.Lock()
	c.freed = slices.DeleteFunc(c.freed, func(o *Slots) bool { return o == s })
	c.mu.Unlock()
	n := int64(len(s.mem))
	offheap.Free(s.mem)
	s.mem, s.words = nil, nil
	c.Reserve(-n)
}

// freedSlots finds the freed Slots that p belongs to. The caller holds c.mu.
func (c *Cache) freedSlots(p *atomic.Uint64) *Slots {
	for _, s := range c.freed {
		first := uintptr(unsafe.Pointer(unsafe.SliceData(s.words)))
		if a := uintptr(unsafe.Pointer(p)); a >= first && a < first+uintptr(len(s.words)*wordLen) {
			return s
		}
	}
	return nil
}
