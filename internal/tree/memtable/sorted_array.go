package memtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/prefix"
)

// sortedArray is the result of a sort: offsets of entries in order. ab[i] is the
// abbreviation of entry i's key after the prefix. same[i] is not 0 when entry i has the
// user key of the entry before it.
type sortedArray struct {
	mem    []byte
	ab     []uint64
	offs   []uint32
	same   []byte
	prefix prefix.Prefix
	keyLen prefix.Length
	held   *atomic.Int64 // see lazyOrder
}

const sortedEntryLen = 13

func newSortedArray(n int, held *atomic.Int64) (*sortedArray, error) {
	mem, err := allocateWhole(n * sortedEntryLen)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	held.Add(int64(cap(mem)))
	return &sortedArray{
		mem: mem, held: held,
		ab:   unsafe.Slice((*uint64)(p), n),
		offs: unsafe.Slice((*uint32)(unsafe.Add(p, n*8)), n),
		same: mem[n*12 : n*13],
	}, nil
}

func (r *sortedArray) free() {
	r.held.Add(-int64(cap(r.mem)))
	releaseWhole(r.mem)
}
