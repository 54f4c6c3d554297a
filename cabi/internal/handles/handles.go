// Package handles is the table of the objects that C holds. It is safe for concurrent use.
package handles

import (
	"sync"
	"sync/atomic"
)

// Handle is what C holds instead of a pointer: kind, generation and index of
// a slot, kind<<56 | generation<<24 | index. The layout is shared with slots.c.
type Handle uint64

// Kind is the type of an object.
type Kind uint8

const (
	chunkBits = 10
	maxChunks = 1 << (24 - chunkBits)
)

// slot holds one object. A lookup is two loads and a compare: the entry is
// immutable, so handle and object always belong together.
type slot struct {
	entry      atomic.Pointer[entry]
	generation atomic.Uint32 // last one handed out
}

type entry struct {
	handle Handle
	object any
}

// Table is slots. Chunks never move. The zero Table is empty.
type Table struct {
	chunks [maxChunks]atomic.Pointer[[1 << chunkBits]slot]

	mu   sync.Mutex // guards the rest
	used uint32     // slots ever used
	free []uint32
}

// at returns the slot of an index, nil if there is none.
func (t *Table) at(index uint32) *slot {
	c := t.chunks[index>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return &c[index&(1<<chunkBits-1)]
}

// Add makes a handle for an object. It reports false when 2^24 are in use.
func (t *Table) Add(k Kind, object any) (Handle, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var index uint32
	if n := len(t.free); n > 0 {
		index = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		if t.used == maxChunks<<chunkBits {
			return 0, false
		}
		index = t.used
		t.used++
		if c := &t.chunks[index>>chunkBits]; c.Load() == nil {
			c.Store(new([1 << chunkBits]slot))
		}
	}
	s := t.at(index)
	h := Handle(k)<<56 | Handle(s.generation.Add(1))<<24 | Handle(index)
	s.entry.Store(&entry{h, object})
	return h, true
}

// Lookup returns the object of a handle. known tells, when there is none,
// whether the handle may once have been one of this kind.
func (t *Table) Lookup(h Handle, k Kind) (object any, known bool) {
	if Kind(h>>56) != k {
		return nil, false
	}
	s := t.at(uint32(h & (1<<24 - 1)))
	if s == nil {
		return nil, false
	}
	if e := s.entry.Load(); e != nil && e.handle == h {
		return e.object, true
	}
	g := uint32(h >> 24)
	return nil, g != 0 && g <= s.generation.Load()
}

// Remove takes a handle out of use and returns its object to the one caller
// that did it.
func (t *Table) Remove(h Handle, k Kind) (object any, known bool) {
	if object, known = t.Lookup(h, k); object == nil {
		return nil, known
	}
	index := uint32(h & (1<<24 - 1))
	s := t.at(index)
	e := s.entry.Load()
	if e == nil || e.handle != h || !s.entry.CompareAndSwap(e, nil) {
		return nil, true
	}
	// A slot whose generations are used up is not used again.
	if s.generation.Load() != ^uint32(0) {
		t.mu.Lock()
		t.free = append(t.free, index)
		t.mu.Unlock()
	}
	return e.object, true
}
