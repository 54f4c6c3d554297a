//go:build race

package memtable

import "github.com/loamdb/loam/internal/offheap"

// The race detector watches only the Go heap, so under it memory comes from
// there, 8-byte aligned. It is refused where memory off the heap would be.

const raceDetector = true

// extent is all there from the beginning.
type extent struct {
	mem []byte
	n   int
}

func newExtent(n, limit int) (*extent, error) {
	if err := refused(); err != nil {
		return nil, err
	}
	return &extent{allocateHeap(limit), n}, nil
}

// refused takes a byte off the heap for a moment.
func refused() error {
	b, err := offheap.TryAlloc(1)
	offheap.Free(b)
	return err
}

func (e *extent) Len() int      { return e.n }
func (e *extent) Whole() []byte { return e.mem }
func (e *extent) AdviseHuge()   {}
func (e *extent) Free()         {}

func (e *extent) Grow(n int) error {
	if err := refused(); err != nil {
		return err
	}
	e.n = min(max(e.n, n), len(e.mem))
	return nil
}

func allocate(n int) ([]byte, error) {
	if err := refused(); err != nil {
		return nil, err
	}
	return allocateHeap(n), nil
}

func release([]byte) {}
