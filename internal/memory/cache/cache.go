// Package cache is the block cache: decoded blocks of tables, off the Go heap,
// within one budget of bytes that any number of databases share.
//
// There is no hash table. Each open table owns Slots, one word per block; the
// word of a cached block holds where its frame lies, how many readers pin it,
// and its CLOCK bit. A hit is one atomic add on that word. Frames lie one after
// another in the rings of a few shards. To make room, a hand goes round the ring,
// evicts frames that were not read since it last came by, and slides the rest
// together. A block that is read only once, as in a scan, is evicted the first
// time the hand meets it. Where the caller asks Admit first, a full cache
// takes a block only the second time.
//
// # Lifetimes
//
// A Frame pins its bytes: neither eviction nor Slots.Free nor a change of the
// budget touches them until Release, which is called exactly once per Frame.
// Nobody may call a method of a Slots beside or after its Free, but frames that
// were pinned before stay good. All frames must be released, and all slots
// freed, before the last Unref.
//
// All methods of a Cache, and those of a Slots up to Free, are safe for
// concurrent use. A Frame is a value that one goroutine uses at a time; its
// bytes may be read by many, and are written only between Alloc and Publish.
package cache

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/memory/offheap"
)

const (
	// unit is the granularity of frames and of the memory of a ring.
	unit = 64
	// minShard is the least size of a shard, unless the whole cache is smaller.
	minShard  = 8 << 20
	maxShards = 16
	// A shared number of bytes has few and large shards, whose ends lie on huge pages: so the
	// memory in use is what is counted. See NewShared.
	sharedShard = 64 << 20
	// hugeFrom is how much the cache has to hold before huge pages are asked for,
	// so that a small database does not pay for pages it never fills.
	hugeFrom = 1 << 20
	// The memory doubles when more is needed, or grows by maxStep if that is less.
	firstStep = 64 << 10
	maxStep   = 2 << 20
)

// Cache is a block cache of a fixed number of bytes.
type Cache struct {
	// Constant after New.
	capacity int64
	base     unsafe.Pointer // of the rings of all shards, side by side; nil for none
	shards   []shard
	shared   bool // see NewShared

	hits, misses epoch.Tally // padded: lookups read above, insertions write below

	growMu sync.Mutex      // a leaf
	mem    *offheap.Extent // what is at base; guarded by growMu
	mapped atomic.Int64    // its length

	refs    atomic.Int64
	next    atomic.Uint32 // shard to allocate from, round robin
	filling atomic.Int32  // shards below this one have been filled once
	age     atomic.Uint32 // clock of ghosts

	mu       sync.Mutex   // orders changes of the budget; taken before a shard's
	reserved atomic.Int64 // written under mu
	charged  atomic.Int64 // written under mu; see Charge
	wanted   atomic.Int64 // written under mu; the capacity now, see SetCapacity
	freed    []*Slots     // freed, with frames still pinned; guarded by mu

	settle func() // see OnFill; constant after the first Alloc

	transients     atomic.Int64 // frames ever allocated outside the rings
	transientBytes atomic.Int64 // held by such frames now
}

// Stats is a snapshot of a cache's state. Counts are since New.
type Stats struct {
	Capacity   int64 // bytes the cache may have
	Reserved   int64 // bytes taken by filters, indexes and slots
	Used       int64 // bytes held: frames, Reserved and transient frames
	Frames     int64 // bytes of frames in the rings
	Transient  int64 // bytes of frames outside the rings, which did not fit
	Hits       int64
	Misses     int64
	Inserts    int64 // frames allocated in the rings
	Evictions  int64
	Moves      int64 // frames copied to keep them
	Transients int64 // frames ever allocated outside the rings
}

// New makes a cache with one reference, which takes memory as it fills. With a capacity
// of 0 or less, or when the system has no addresses for it even after it was halved a
// few times, the cache holds nothing: every frame is then transient.
func New(capacity int64) *Cache { return newCache(capacity, false) }

// NewShared makes a cache that gives way to all else that a number of bytes is shared with, down
// to an eighth of its capacity; see Charge.
func NewShared(capacity int64) *Cache { return newCache(capacity, true) }

func newCache(capacity int64, shared bool) *Cache {
	c := &Cache{capacity: min(max(capacity, 0), unit<<locBits-minShard), shared: shared}
	c.wanted.Store(c.capacity)
	c.refs.Store(1)
	c.hits.Init(math.MaxInt64) // it all stays in the stripes
	c.misses.Init(math.MaxInt64)
	n := c.capacity / minShard
	if shared {
		n = c.capacity / sharedShard
	}
	n = max(1, min(n, maxShards))
	per := c.capacity / n &^ (unit - 1)
	for try := 0; per > 0; try++ {
		mem, err := offheap.NewExtent(unit, int(per*n))
		if err == nil {
			c.mem = mem
			c.mapped.Store(int64(mem.Len()))
			c.base = unsafe.Pointer(unsafe.SliceData(mem.Whole()))
			break
		}
		if per = per / 2 &^ (unit - 1); try == 8 {
			per = 0
		}
	}
	c.shards = make([]shard, n)
	for i := range c.shards {
		c.shards[i].init(c, int64(i)*per, per)
	}
	return c
}

// Capacity is the number of bytes the cache may have.
func (c *Cache) Capacity() int64 { return c.wanted.Load() }

// SetCapacity changes the limit of the cache in bytes, at most to its first value.
func (c *Cache) SetCapacity(n int64) bool {
	if n < 0 || n > c.capacity || c.base == nil && n != c.capacity {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted.Store(n)
	c.fitLocked()
	return true
}

// Ref adds a reference. It reports false when the last one was dropped before: the
// memory is then freed.
func (c *Cache) Ref() bool {
	for {
		n := c.refs.Load()
		if n <= 0 {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unref drops a reference; the last one frees the memory.
func (c *Cache) Unref() {
	n := c.refs.Add(-1)
	if invariants.Enabled {
		invariants.Check(n >= 0, "cache: Unref after the last Unref")
	}
	if n != 0 {
		return
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if invariants.Enabled {
			used := s.small.used + s.main.used
			invariants.Check(used == 0, "cache: freed with %d bytes of frames in use", used)
		}
		s.small.init(c, 0, 0)
		s.main.init(c, 0, 0)
		s.mu.Unlock()
	}
	c.mem.Free()
	c.mem, c.base = nil, nil
}

// extend makes sure that the memory reaches to end.
func (c *Cache) extend(end int64) bool {
	if end <= c.mapped.Load() {
		return true
	}
	c.growMu.Lock()
	defer c.growMu.Unlock()
	have := c.mapped.Load()
	if end <= have {
		return true
	}
	if have >= hugeFrom {
		c.mem.AdviseHuge()
	}
	size := max(end, have+min(max(have, firstStep), maxStep))
	if c.mem.Grow(int(min(size, int64(len(c.mem.Whole()))))) != nil {
		return false
	}
	c.mapped.Store(int64(c.mem.Len()))
	return true
}

// Reserve counts delta bytes, which may be negative, that are held outside of the cache
// (filters, indexes) against the budget: the room for frames shrinks by delta at once,
// but never below a quarter of the capacity, an eighth if the cache is shared.
func (c *Cache) Reserve(delta int64) {
	offheap.Attribute(delta)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reserved.Add(delta)
	if invariants.Enabled {
		invariants.Check(r >= 0, "cache: reserved %d bytes", r)
	}
	c.fitLocked()
}

// Charge counts delta bytes, which may be negative, of memtables and buffers as Reserve does.
func (c *Cache) Charge(delta int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charged.Add(delta)
	c.fitLocked()
}

// Tables is what Reserve counts.
func (c *Cache) Tables() int64 { return c.reserved.Load() }

// Crowded reports whether what Reserve counts is more than one part of so many of a shared cache.
func (c *Cache) Crowded(parts int64) bool {
	return c != nil && c.shared && c.reserved.Load() > c.wanted.Load()/parts
}

// settleEvery is how many frames of a full cache are allocated between two calls of what OnFill
// sets.
const settleEvery = 256

// OnFill has settle called now and then while a full cache takes blocks. It may charge the cache,
// and is set before the first Alloc.
func (c *Cache) OnFill(settle func()) { c.settle = settle }

// Blocks is the bytes of frames in the rings.
func (c *Cache) Blocks() int64 { return c.Stats().Frames }

// hugePage is where the rings of a shared cache of large shards end.
const hugePage = 2 << 20

// fitLocked gives the rings what is left of the capacity.
//
// REQUIRES: c.mu held.
func (c *Cache) fitLocked() {
	capacity := c.wanted.Load()
	floor := capacity / 4
	if c.shared {
		floor = capacity / 8
	}
	room := max(capacity-max(c.reserved.Load(), 0)-max(c.charged.Load(), 0), floor)
	per := room / int64(len(c.shards))
	for i := range c.shards {
		c.shards[i].fit(per, c.shared)
	}
}

// Spare is about how many bytes of frames can be added before anything is evicted.
func (c *Cache) Spare() (n int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.spare()
		s.mu.Unlock()
	}
	return n
}

// Lookups is how often blocks were looked up since New.
func (c *Cache) Lookups() int64 { return c.hits.Sum() + c.misses.Sum() }

// Stats gathers the counters. It is not a consistent cut.
func (c *Cache) Stats() Stats {
	st := Stats{
		Capacity:   c.wanted.Load(),
		Reserved:   c.reserved.Load(),
		Transient:  c.transientBytes.Load(),
		Transients: c.transients.Load(),
		Hits:       c.hits.Sum(),
		Misses:     c.misses.Sum(),
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.Frames += s.small.used + s.main.used
		st.Inserts += s.inserts
		st.Evictions += s.small.evictions + s.main.evictions
		st.Moves += s.small.moves + s.main.moves
		s.mu.Unlock()
	}
	st.Used = st.Frames + st.Reserved + st.Transient
	return st
}

// frameSize is the room in a ring that a frame of n bytes takes.
func frameSize(n int64) int64 {
	return (n + int64(headerLen) + unit - 1) &^ (unit - 1)
}

// Alloc returns a pinned frame of n bytes, whose contents are arbitrary and
// which no lookup can find before Publish. Where the rings have no room (all is
// pinned, or n is large against a shard), the frame is transient: memory
// outside the rings, beyond the budget, freed by Release. The frame is not
// Valid only when the system is out of memory or n is negative.
func (c *Cache) Alloc(n int) Frame {
	if n < 0 || int64(n) > maxFrame {
		return Frame{}
	}
	need := frameSize(int64(n))
	// While there is untouched memory, one shard after another is filled, so
	// that a cache costs what is in it.
	for i := c.filling.Load(); int(i) < len(c.shards); i = c.filling.Load() {
		s := &c.shards[i]
		s.mu.Lock()
		off, ok, full := s.bump(need)
		s.mu.Unlock()
		if ok {
			return c.place(off, n)
		}
		if !s.main.fits(need) {
			return c.transient(n)
		}
		if full {
			c.filling.CompareAndSwap(i, i+1)
		} else {
			break // the system refuses memory
		}
	}
	// All shards, or if the system refused memory, those that have some.
	usable := min(len(c.shards), max(1, int(c.filling.Load())))
	first := int(c.next.Add(1))
	if first%settleEvery == 0 && c.settle != nil {
		c.settle()
	}
	for try := range min(usable, 2) {
		s := &c.shards[(first+try)%usable]
		if !s.main.fits(need) {
			break
		}
		if !s.mu.TryLock() {
			if try == 0 && usable > 1 {
				continue // the next shard is likely to be idle
			}
			s.mu.Lock()
		}
		off, ok := s.alloc(need)
		s.mu.Unlock()
		if ok {
			return c.place(off, n)
		}
	}
	return c.transient(n)
}

// admits reports whether a block of n bytes that no ghost knows should be put into the
// cache. If not, the block counts towards the age of ghosts.
func (c *Cache) admits(n int64) bool {
	if int(c.filling.Load()) < len(c.shards) {
		return true
	}
	// The shard that Alloc would take, or the next one after a refusal.
	s := &c.shards[int(c.next.Load()+1)%len(c.shards)]
	s.mu.Lock()
	ok := s.admits(frameSize(n))
	s.mu.Unlock()
	if !ok {
		c.next.Add(1)
	}
	return ok
}

// place wraps the private frame at off, whose header the shard has written.
func (c *Cache) place(off int64, n int) Frame {
	h := c.header(off)
	h.len = int64(n)
	return Frame{c: c, h: h, pin: &h.state}
}

// transient allocates a frame outside the rings.
func (c *Cache) transient(n int) Frame {
	mem, err := offheap.Alloc(n + headerLen)
	if err != nil {
		return Frame{}
	}
	h := (*header)(unsafe.Pointer(unsafe.SliceData(mem)))
	h.len = int64(n)
	h.flags = flagTransient
	h.slot.Store(uintptr(cap(mem)))
	h.state.Store(pinOne | specialBit)
	c.transients.Add(1)
	c.transientBytes.Add(int64(cap(mem)))
	return Frame{c: c, h: h, pin: &h.state}
}
