package memtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/offheap"
)

// run is a sorted array of entry offsets, what a sort makes. ab[i] is the
// comparer's abbreviation of entry i's key after the prefix, which all keys
// share. same[i] is not 0 when entry i has the user key of the entry before it.
type run struct {
	mem    []byte
	ab     []uint64
	offs   []uint32
	same   []byte
	prefix []byte
	keyLen int           // of all keys; -1 when they differ in length
	held   *atomic.Int64 // the table's count of bytes beside the arena
}

const runEntryLen = 13

func newRun(n int, held *atomic.Int64) (*run, error) {
	mem, err := allocateWhole(n * runEntryLen)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	held.Add(int64(cap(mem)))
	return &run{
		mem: mem, held: held,
		ab:   unsafe.Slice((*uint64)(p), n),
		offs: unsafe.Slice((*uint32)(unsafe.Add(p, n*8)), n),
		same: mem[n*12 : n*13],
	}, nil
}

func (r *run) free() {
	r.held.Add(-int64(cap(r.mem)))
	releaseWhole(r.mem)
}

// heapBytes or less are left to the garbage collector.
const heapBytes = 32 << 10

// allocateWhole is for memory that is written from end to end at once: in huge
// pages that costs a tenth of the page faults. It is aligned to 8 bytes.
func allocateWhole(n int) ([]byte, error) {
	if n <= heapBytes {
		return allocateHeap(n), nil
	}
	b, err := allocate(n)
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
		release(b)
	}
}
