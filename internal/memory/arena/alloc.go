//go:build !race

package arena

import "github.com/loamdb/loam/internal/memory/offheap"

// RaceDetector says whether this is a build with the race detector.
const RaceDetector = false

// Extent is memory that grows in place, see offheap.Extent.
type Extent = offheap.Extent

// NewExtent allocates n bytes that can grow to limit.
func NewExtent(n, limit int) (*Extent, error) { return offheap.NewExtent(n, limit) }

// Alloc returns n zeroed bytes.
func Alloc(n int) ([]byte, error) { return offheap.Alloc(n) }

// Free frees what Alloc returned.
func Free(b []byte) { offheap.Free(b) }
