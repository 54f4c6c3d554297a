package offheap

import (
	"fmt"
	"unsafe"
)

// Extent is memory that grows in place, up to a limit: nothing moves, so readers need
// not be stopped. Where the system allows it, address space is taken for its present
// length only. One goroutine at a time may call Grow, AdviseHuge and Free.
type Extent struct {
	mem  []byte // the present length; its capacity is the limit
	huge bool
	own  bool // mapped piece by piece, in a range of its own
}

// NewExtent allocates n bytes that can grow to limit. From manyPages up to fewBytes are made
// resident at once, which is a little cheaper than a page fault for each page.
func NewExtent(n, limit int) (*Extent, error) {
	if n <= 0 || limit < n || limit > maxSize()-pageSize {
		return nil, fmt.Errorf("%w: %d bytes that grow to %d", ErrNoMemory, n, limit)
	}
	n, limit = roundUp(n), roundUp(limit)
	e := new(Extent)
	if err := e.begin(n, limit); err != nil {
		return nil, err
	}
	inUse.Add(int64(len(e.mem)))
	Attribute(int64(len(e.mem)))
	return e, nil
}

func (e *Extent) begin(n, limit int) error {
	if err := failing(n); err != nil {
		return noMemory(n, err)
	}
	if n < limit || Unmap {
		if mem, ok := mapRange(n, limit, n > manyPages && n <= fewBytes); ok {
			e.mem, e.own = mem, true
			return nil
		}
	}
	mem, err := mapPages(limit)
	if err != nil {
		return noMemory(limit, err)
	}
	e.mem = mem
	return nil
}

// Up to fewBytes are made resident by NewExtent and Grow. By NewExtent only more than manyPages
// are: a page takes 1.6 us then and 1.8 us by a fault, and most databases that write little do not
// come to the end of these.
const (
	fewBytes  = 1 << 20
	manyPages = 64 << 10
)

// Len is the present length in bytes.
func (e *Extent) Len() int { return len(e.mem) }

// Whole is the memory with the length that it may grow to. Bytes from Len on must not be
// touched.
func (e *Extent) Whole() []byte { return e.mem[:cap(e.mem)] }

// Grow makes the extent n bytes or more. When the system refuses, nothing changes.
func (e *Extent) Grow(n int) error {
	have := len(e.mem)
	n = roundUp(n)
	switch {
	case n <= have:
		return nil
	case n > cap(e.mem):
		return fmt.Errorf("%w: %d bytes of %d", ErrNoMemory, n, cap(e.mem))
	}
	if e.huge {
		// A page is huge only if all of it is mapped when it is first touched.
		n = min((n+hugeSize-1)&^(hugeSize-1), cap(e.mem))
	}
	if err := failing(n - have); err != nil {
		return noMemory(n-have, err)
	}
	if err := growRange(e.mem, n, n <= fewBytes); err != nil {
		return noMemory(n-have, err)
	}
	e.mem = e.mem[:n]
	inUse.Add(int64(n - have))
	Attribute(int64(n - have))
	if e.huge {
		AdviseHuge(e.mem[have&^(hugeSize-1):])
	}
	return nil
}

// AdviseHuge asks for huge pages, for later growth too.
func (e *Extent) AdviseHuge() {
	if !e.huge {
		e.huge = true
		AdviseHuge(e.mem)
	}
}

// ReleaseFrom gives the pages behind the first n bytes back to the system. The extent stays as
// long as it is, and what was in them reads as zeros. Nobody may read or write them meanwhile.
func (e *Extent) ReleaseFrom(n int) {
	if n < len(e.mem) {
		Release(e.mem[n:])
	}
}

// MoveSize is how many bytes go from one extent to another at a time.
const MoveSize = hugeSize

// Movable reports whether memory of the extent can become another one's, see TakeLast.
func (e *Extent) Movable() bool { return e.own && canMove() }

// TakeLast replaces the last MoveSize bytes of e, which nobody has touched, by the last ones of
// from. That becomes shorter, and is cut to a multiple of MoveSize first. The pages move,
// which costs less than a page fault. It reports false where from has no such bytes. It also does
// if the system refuses: then e is shorter by MoveSize, nothing is Movable any more, and from is
// only to be freed. REQUIRES: both are Movable, and e has a multiple of MoveSize.
func (e *Extent) TakeLast(from *Extent) bool {
	from.shorten(len(from.mem) &^ (MoveSize - 1))
	to, n := len(e.mem)-MoveSize, len(from.mem)-MoveSize
	if n < 0 {
		return false
	}
	ok := movePages(e.mem[to:], from.mem[n:])
	if ok {
		from.mem = from.mem[:n]
	} else {
		e.mem = e.mem[:to]
	}
	inUse.Add(-MoveSize)
	Attribute(-MoveSize)
	return ok
}

// shorten unmaps all but the first n bytes of a Movable extent.
func (e *Extent) shorten(n int) {
	tail := e.mem[n:]
	if len(tail) == 0 {
		return
	}
	unmapPages(tail)
	inUse.Add(-int64(len(tail)))
	Attribute(-int64(len(tail)))
	e.mem = e.mem[:n]
}

// Free frees the memory and its addresses. A nil extent is ignored.
func (e *Extent) Free() {
	if e == nil || e.mem == nil {
		return
	}
	inUse.Add(-int64(len(e.mem)))
	Attribute(-int64(len(e.mem)))
	if e.own {
		unmapRange(e.mem) // which may be empty
	} else {
		unmapPages(e.mem[:cap(e.mem)])
	}
	e.mem = nil
}

func roundUp(n int) int {
	page := max(pageSize, systemPage)
	return (n + page - 1) &^ (page - 1)
}

// at is n bytes from p on.
func at(p unsafe.Pointer, n, capacity int) []byte {
	return unsafe.Slice((*byte)(p), capacity)[:n]
}
