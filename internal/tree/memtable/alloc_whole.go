package memtable

import (
	"unsafe"

	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// Allocations of heapBytes or less come from the Go heap.
const heapBytes = 32 << 10

// allocateWhole allocates memory that is written from end to end at once: huge pages
// make that cost a tenth of the page faults. It is aligned to 8 bytes.
func allocateWhole(n int) ([]byte, error) {
	if n <= heapBytes {
		return allocateHeap(n), nil
	}
	b, err := arena.Alloc(n)
	if err == nil && n >= hugeFrom {
		offheap.AdviseHuge(b)
	}
	return b, err
}

func allocateHeap(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}

func releaseWhole(b []byte) {
	if cap(b) > heapBytes {
		arena.Free(b)
	}
}
