//go:build !race

package memtable

import "github.com/loamdb/loam/internal/offheap"

// raceDetector says whether this is a build with the race detector.
const raceDetector = false

type extent = offheap.Extent

func newExtent(n, limit int) (*extent, error) { return offheap.NewExtent(n, limit) }

func allocate(n int) ([]byte, error) { return offheap.Alloc(n) }

func release(b []byte) { offheap.Free(b) }
