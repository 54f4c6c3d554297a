//go:build race

package memtable

import "github.com/loamdb/loam/internal/offheap"

// The race detector watches the Go heap only, so with it all memory comes from there,
// aligned to 8 bytes. It is refused where memory off the heap would be.

const raceDetector = true

// extent has all of its memory from the beginning.
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

// refused reports whether memory off the heap is refused: it allocates a byte of it.
func refused() error {
	b, err := offheap.Alloc(1)
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
