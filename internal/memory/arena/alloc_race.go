//go:build race

package arena

import (
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
	return &Extent{heap(limit), n}, nil
}

// refused reports whether memory off the heap is refused: it allocates a byte of it.
func refused() error {
	b, err := offheap.Alloc(1)
	offheap.Free(b)
	return err
}

func (e *Extent) Len() int          { return e.n }
func (e *Extent) Whole() []byte     { return e.mem }
func (e *Extent) AdviseHuge()       {}
func (e *Extent) ReleaseFrom(n int) {}
func (e *Extent) Free()             {}

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
