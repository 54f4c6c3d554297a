package memtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/memory/radix"
)

// sortedArray is the result of a sort: entries in order. Ab of a pair is the abbreviation of the
// entry's key after the prefix. Same says that the entry before it has the same user key.
type sortedArray struct {
	mem    []byte
	pairs  []radix.Pair
	prefix prefix.Prefix
	keyLen prefix.Length
	held   *atomic.Int64 // see lazyOrder
}

func newSortedArray(n int, held *atomic.Int64) (*sortedArray, error) {
	mem, err := allocateWhole(n * int(unsafe.Sizeof(radix.Pair{})))
	if err != nil {
		return nil, err
	}
	held.Add(int64(cap(mem)))
	pairs := unsafe.Slice((*radix.Pair)(unsafe.Pointer(unsafe.SliceData(mem))), n)
	return &sortedArray{mem: mem, pairs: pairs, held: held}, nil
}

func (r *sortedArray) free() {
	r.held.Add(-int64(cap(r.mem)))
	releaseWhole(r.mem)
}
