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
// Where the system moves pages from address to address, an arena of moveFrom bytes or more gives
// them to the next ones a piece at a time, as those grow. So the memtables of a database never have
// more memory than they had when they were fullest together: while one is flushed, the next one
// has what it has filled.
//
// Memory comes here when the last reference on a memtable is given back, which is when it would be
// freed otherwise; nobody reads it. The arena stays as it is: whatever leads to an entry is written
// after the entry. The index must be zero; the caller that returns it clears it.
//
// A nil Spare keeps nothing. It is safe for concurrent use.
type Spare struct {
	mu       sync.Mutex
	arenaLen int     // of the arenas that are kept
	arena    *Extent // nil: none is kept; a movable one may have lost pages to its successor
	index    []byte  // all of its capacity is zero
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
	taken := s.wantsLocked(arena)
	var less *Extent
	if taken {
		less, s.arena = s.arena, arena
		index, s.index = s.index, index
	}
	s.mu.Unlock()
	if taken {
		less.Free() // which may be nil
		Free(index)
	}
	return taken
}

// maxRounding is more than the system's pages round an arena up by.
const maxRounding = 64 << 10

func (s *Spare) wants(arena *Extent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wantsLocked(arena)
}

func (s *Spare) wantsLocked(arena *Extent) bool {
	switch {
	case offheap.Unmap || s.closed || len(arena.Whole()) > s.arenaLen+maxRounding:
		return false
	case s.moves(arena):
		return arena.Len() >= moveFrom && (s.arena == nil || arena.Len() > s.arena.Len())
	}
	return s.arena == nil && arena.Len() >= s.arenaLen
}

// moveFrom is how large arenas are whose memory moves a piece at a time.
const moveFrom = 4 * offheap.MoveSize

// moves reports whether the memory of an arena moves.
func (s *Spare) moves(arena *Extent) bool {
	return arena.Movable() && s.arenaLen >= moveFrom && len(arena.Whole()) >= moveFrom
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

// Take returns an arena of at least n bytes and an index of so many. Either may be nil, the arena
// also where its memory moves.
func (s *Spare) Take(n, indexLen int) (arena *Extent, index []byte) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.arena == nil:
	case s.moves(s.arena):
	case s.arena.Len() < n:
		return nil, nil
	default:
		arena, s.arena = s.arena, nil
	}
	index, s.index = s.index, nil
	if cap(index) < indexLen || cap(index) > 2*indexLen {
		Free(index)
		return arena, nil
	}
	return arena, index[:indexLen]
}

// NewExtent allocates an arena of n bytes that can grow to limit, or a short one where memory
// moves. moved says that it has memory of another one.
func (s *Spare) NewExtent(n, limit int) (e *Extent, moved bool, err error) {
	if s == nil || limit < moveFrom {
		e, err = NewExtent(n, limit)
		return e, false, err
	}
	if e, err = NewExtent(offheap.MoveSize, limit); err != nil {
		return nil, false, err
	}
	if moved = s.move(e); !moved && e.Len() == 0 {
		e.Free()
		e, err = NewExtent(n, limit)
	}
	return e, moved, err
}

// Grow makes an arena n bytes long or more. moved says that it got memory of another one.
func (s *Spare) Grow(e *Extent, n int) (moved bool, err error) {
	for have := e.Len(); have < n && err == nil; have = e.Len() {
		err = e.Grow(min(have+offheap.MoveSize, len(e.Whole())))
		if err == nil && have%offheap.MoveSize == 0 && e.Len() == have+offheap.MoveSize {
			moved = s.move(e) || moved
		}
	}
	return moved, err
}

// move replaces the last piece of e, which nobody has touched, by one of the arena that is kept.
func (s *Spare) move(e *Extent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arena == nil || !s.moves(s.arena) || !s.moves(e) {
		return false
	}
	moved := e.TakeLast(s.arena)
	if s.arena.Len() == 0 || !s.arena.Movable() {
		s.arena.Free()
		s.arena = nil
	}
	return moved
}

// Bytes is how much memory is kept.
func (s *Spare) Bytes() int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := cap(s.index) // which may be left when the arena was taken piece by piece
	if s.arena != nil {
		n += s.arena.Len()
	}
	return int64(n)
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
