// Package offheap allocates memory for data that the garbage collector neither scans nor counts:
// anonymous mappings for large pieces, runs of pages in shared mappings of huge pages for smaller
// ones, size-class slabs in these for small ones. Memory arrives zeroed. On systems without
// mappings it comes from the Go heap instead, with the same rules.
//
// Every piece has one owner, which frees it exactly once when it has no readers any more. All
// functions are safe for concurrent use.
package offheap

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
)

// ErrNoMemory says that the system refuses memory, or that no process can have as much
// as was asked for.
var ErrNoMemory = base.ErrNoMemory

const (
	pageSize    = 4096 // rounding unit; the system's own pages may be larger
	hugeSize    = 2 << 20
	maxSlab     = 4 << 10 // larger pieces are runs of pages, see area
	maxAlloc    = 1 << 46
	maxAlloc32  = 1<<31 - pageSize
	pointerBits = 32 << (^uintptr(0) >> 63)
)

var inUse atomic.Int64

// InUse is the number of bytes allocated in the whole process, rounded up to size
// classes and pages.
func InUse() int64 { return inUse.Load() }

// attributed is the part of inUse that its owners account for.
var attributed atomic.Int64

// Attribute notes that so many of the bytes in use, fewer if delta is negative, are accounted
// for by their owner. Those of extents always are.
func Attribute(delta int64) { attributed.Add(delta) }

// Unattributed is the memory that nobody accounts for: buffers and what is passed from hand to
// hand. Memory that was freed and not given back to the system is among it.
func Unattributed() int64 { return max(inUse.Load()-attributed.Load(), 0) + pieces.idle() }

// Alloc returns n zeroed bytes, and nil for n = 0. Its capacity is the size
// really held and all of it may be used. The error wraps ErrNoMemory when the system
// refuses, and when n is negative or more than a process can have.
func Alloc(n int) ([]byte, error) {
	switch {
	case n == 0:
		return nil, nil
	case n < 0 || n > maxSize():
		return nil, fmt.Errorf("%w: %d bytes asked for", ErrNoMemory, n)
	}
	if err := failing(n); err != nil {
		return nil, noMemory(n, err)
	}
	var b []byte
	var err error
	switch {
	case Unmap:
		b, err = allocAnew(roundUp(n))
	case n <= maxSlab:
		b, err = slabs[classOf(n)].alloc()
	case n <= maxPiece:
		b, err = pieces.alloc((n + pageSize - 1) &^ (pageSize - 1))
	default:
		b, err = mapPages(roundUp(n))
	}
	if err != nil {
		return nil, noMemory(n, err)
	}
	inUse.Add(int64(cap(b)))
	track(b)
	return b[:n], nil
}

func noMemory(n int, why error) error { return fmt.Errorf("%w: %d bytes: %v", ErrNoMemory, n, why) }

// fault is called before every allocation, see SetFault.
var fault atomic.Pointer[func(n int) error]

// SetFault makes every allocation and growth call f, with its size in bytes, and fail
// with ErrNoMemory when f returns an error. nil ends that. For tests.
func SetFault(f func(n int) error) {
	if f == nil {
		fault.Store(nil)
		return
	}
	fault.Store(&f)
}

func failing(n int) error {
	if f := fault.Load(); f != nil {
		return (*f)(n)
	}
	return nil
}

// Free frees b, which begins where an allocation began and has its capacity. A nil b is
// ignored.
func Free(b []byte) {
	n := cap(b)
	if n == 0 {
		return
	}
	b = b[:n]
	untrack(b)
	inUse.Add(-int64(n))
	switch {
	case Unmap:
		unmapRange(b)
	case n <= maxSlab:
		slabs[classOf(n)].free(b)
	case n <= maxPiece:
		pieces.free(b)
	default:
		unmapPages(b)
	}
}

// AdviseHuge asks for huge pages in the part of b that is aligned to 2 MiB. It is a hint,
// which systems without huge pages ignore.
func AdviseHuge(b []byte) {
	if in := inside(b, hugeSize); len(in) > 0 {
		adviseHuge(in)
	}
}

// Release zeroes b[:len(b)] and returns the whole pages inside to the system.
func Release(b []byte) {
	in := inside(b, systemPage)
	if len(in) == 0 {
		clear(b)
		return
	}
	lead := int(uintptr(unsafe.Pointer(unsafe.SliceData(in))) - uintptr(
		unsafe.Pointer(unsafe.SliceData(b))))
	clear(b[:lead])
	clear(b[lead+len(in):])
	releasePages(in)
}

// inside is the largest part of b that begins and ends on a multiple of align.
func inside(b []byte, align int) []byte {
	addr := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(align-1))
	lead := (align - addr) & (align - 1)
	if lead >= len(b) {
		return nil
	}
	n := (len(b) - lead) &^ (align - 1)
	return b[lead : lead+n : lead+n]
}

func maxSize() int {
	if pointerBits == 32 {
		return maxAlloc32
	}
	big := int64(maxAlloc)
	return int(big)
}
