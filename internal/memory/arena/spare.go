// Package arena allocates the memory of memtables, and keeps that of one for the next. With the
// race detector, which watches the Go heap only, it comes from there.
package arena

import (
	"sync"

	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// Spare keeps the memory of one memtable that is not used any more for the next one.
// Fresh memory is what a write waits for longest: the system zeroes it, a page fault at
// a time, and a virtual machine may have to get it from its host. So the writer of a
// database that fills memtables goes from one arena to the other.
//
// Memory comes here when the last reference on a memtable is given back, which is when it would be
// freed otherwise; nobody reads it. The arena stays as it is: whatever leads to an entry is written
// after the entry. The index must be zero; the caller that returns it clears it.
//
// A nil Spare keeps nothing. It is safe for concurrent use.
type Spare struct {
	mu       sync.Mutex
	arenaLen int // of the arenas that are kept
	arena    *Extent
	index    []byte // all of its capacity is zero
	closed   bool
}

// NewSpare makes a Spare for arenas of n bytes.
func NewSpare(n int) *Spare { return &Spare{arenaLen: n} }

// poison is what invariants builds fill an arena with that nobody should read any more.
const poison = 0xdb

// Give takes over the memory of a memtable, whose arena has used bytes that were written, or
// reports false.
func (s *Spare) Give(arena *Extent, index []byte, used uint64) bool {
	if s == nil || arena == nil || !s.wants(arena) {
		return false
	}
	if invariants.Enabled {
		b := arena.Whole()[:used]
		for i := range b {
			b[i] = poison
		}
	}
	clear(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wantsLocked(arena) {
		return false
	}
	s.arena, s.index = arena, index
	return true
}

// maxRounding is more than the system's pages round an arena up by.
const maxRounding = 64 << 10

func (s *Spare) wants(arena *Extent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wantsLocked(arena)
}

func (s *Spare) wantsLocked(arena *Extent) bool {
	return !offheap.Unmap && !s.closed && s.arena == nil && arena.Len() >= s.arenaLen &&
		len(arena.Whole()) <= s.arenaLen+maxRounding
}

// SetSize keeps arenas of n bytes from now on.
func (s *Spare) SetSize(n int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	changed := s.arenaLen != n
	s.arenaLen = n
	s.mu.Unlock()
	if changed {
		s.Trim()
	}
}

// Take returns an arena of at least n bytes and an index of so many. Either may be nil.
func (s *Spare) Take(n, indexLen int) (arena *Extent, index []byte) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arena == nil || s.arena.Len() < n {
		return nil, nil
	}
	arena, index = s.arena, s.index
	s.arena, s.index = nil, nil
	if cap(index) < indexLen || cap(index) > 2*indexLen {
		Free(index)
		return arena, nil
	}
	return arena, index[:indexLen]
}

// Bytes is how much memory is kept.
func (s *Spare) Bytes() int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arena == nil {
		return 0
	}
	return int64(s.arena.Len() + cap(s.index))
}

// Trim frees what is kept.
func (s *Spare) Trim() {
	if s != nil {
		s.free(false)
	}
}

// Close frees the kept memory, and ends keeping.
func (s *Spare) Close() {
	if s != nil {
		s.free(true)
	}
}

func (s *Spare) free(closed bool) {
	s.mu.Lock()
	arena, index := s.arena, s.index
	s.arena, s.index = nil, nil
	s.closed = s.closed || closed
	s.mu.Unlock()
	if arena != nil {
		arena.Free()
	}
	Free(index)
}
