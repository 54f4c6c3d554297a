//go:build race

package memtable

// The race detector watches only the Go heap, so under it memory comes from
// there, 8-byte aligned.

const raceDetector = true

// extent is all there from the beginning.
type extent struct {
	mem []byte
	n   int
}

func newExtent(n, limit int) (*extent, error) { return &extent{allocateHeap(limit), n}, nil }

func (e *extent) Len() int      { return e.n }
func (e *extent) Whole() []byte { return e.mem }
func (e *extent) AdviseHuge()   {}
func (e *extent) Free()         {}

func (e *extent) Grow(n int) error {
	e.n = min(max(e.n, n), len(e.mem))
	return nil
}

func allocate(n int) ([]byte, error) {
	return allocateHeap(n), nil
}

func release([]byte) {}
