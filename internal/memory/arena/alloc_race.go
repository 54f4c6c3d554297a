//go:build race

package arena

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/loamdb/loam/internal/memory/offheap"
)

// The race detector watches the Go heap only, so with it all memory comes from there,
// aligned to 8 bytes. It is refused where memory off the heap would be.

// RaceDetector says whether this is a build with the race detector.
const RaceDetector = true

// Extent is memory with a length that grows. It has all of it from the beginning.
type Extent struct {
	mem []byte
	n   int
}

// NewExtent allocates n bytes that can grow to limit.
func NewExtent(n, limit int) (*Extent, error) {
	if err := refused(); err != nil {
		return nil, err
	}
	mem := freed.take(limit)
	if mem == nil {
		mem = heap(limit)
	}
	return &Extent{mem, n}, nil
}

// freed has zeroed memory of extents for the next ones: large allocations are what the race
// detector is slowest at.
var freed freeList

type freeList struct {
	mu  sync.Mutex
	mem [][]byte // the oldest first
}

// maxFreed is how many extents a freeList keeps.
const maxFreed = 8

// take returns n bytes, or nil.
func (l *freeList) take(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.mem, func(b []byte) bool { return len(b) == n })
	if i < 0 {
		return nil
	}
	b := l.mem[i]
	l.mem = slices.Delete(l.mem, i, i+1)
	return b
}

func (l *freeList) give(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mem) == maxFreed {
		l.mem = slices.Delete(l.mem, 0, 1)
	}
	l.mem = append(l.mem, b)
}

// refused reports whether memory off the heap is refused: it allocates a byte of it.
func refused() error {
	b, err := offheap.Alloc(1)
	offheap.Free(b)
	return err
}

// Movable: only pages off the heap move.
func (e *Extent) Movable() bool         { return false }
func (e *Extent) TakeLast(*Extent) bool { return false }

func (e *Extent) Len() int          { return e.n }
func (e *Extent) Whole() []byte     { return e.mem }
func (e *Extent) AdviseHuge()       {}
func (e *Extent) ReleaseFrom(n int) {}

// Free makes the memory that of another extent: a later use of it is a data race.
func (e *Extent) Free() {
	if e != nil {
		clear(e.mem[:e.n])
		freed.give(e.mem)
		*e = Extent{}
	}
}

func (e *Extent) Grow(n int) error {
	if err := refused(); err != nil {
		return err
	}
	e.n = min(max(e.n, n), len(e.mem))
	return nil
}

// Alloc returns n zeroed bytes.
func Alloc(n int) ([]byte, error) {
	if err := refused(); err != nil {
		return nil, err
	}
	return heap(n), nil
}

// Free frees what Alloc returned.
func Free([]byte) {}

func heap(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}
