//go:build cgo && !windows

package main

import (
	"sync"
	"sync/atomic"
)

// A handle is what C holds instead of a pointer: kind, generation and index of
// a slot, kind<<56 | generation<<24 | index. The layout is shared with slots.c.
type handle uint64

type kind uint8

// Kinds of Go's objects. slots.h has C's, which begin at 0x40.
const (
	kindOptions kind = 1 + iota
	kindCache
	kindDB
	kindSnapshot
	kindIterator
	kindJob
	kindTxn
	kindBackup
)

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
	handle handle
	object any
}

// table is the slots of the process. Chunks never move.
type table struct {
	chunks [maxChunks]atomic.Pointer[[1 << chunkBits]slot]

	mu   sync.Mutex // guards the rest
	used uint32     // slots ever used
	free []uint32
}

var handles table

// at returns the slot of an index, nil if there is none.
func (t *table) at(index uint32) *slot {
	c := t.chunks[index>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return &c[index&(1<<chunkBits-1)]
}

// add makes a handle for an object. It reports false when 2^24 are in use.
func (t *table) add(k kind, object any) (handle, bool) {
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
	h := handle(k)<<56 | handle(s.generation.Add(1))<<24 | handle(index)
	s.entry.Store(&entry{h, object})
	return h, true
}

// lookup returns the object of a handle. known tells, when there is none,
// whether the handle may once have been one of this kind.
func (t *table) lookup(h handle, k kind) (object any, known bool) {
	if kind(h>>56) != k {
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

// remove takes a handle out of use and returns its object to the one caller
// that did it.
func (t *table) remove(h handle, k kind) (object any, known bool) {
	if object, known = t.lookup(h, k); object == nil {
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
