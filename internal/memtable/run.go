package memtable

import (
	"bytes"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/invariants"
	"github.com/loamdb/loam/internal/offheap"
)

// run is a sorted array of entry offsets, immutable once made. ab[i] is the
// comparer's abbreviation of entry i's key after skip bytes; all keys of the
// run share those bytes. same[i] is not 0 when entry i has the user key of the
// entry before it.
type run struct {
	mem    []byte
	ab     []uint64
	offs   []uint32
	same   []byte
	prefix []byte // the shared bytes, in lead when they fit
	lead   [24]byte
	skip   int
	keyLen int          // of all keys; -1 when they differ in length
	newest base.Trailer // the highest
	plain  bool         // all KindSet, and no user key twice
	refs   atomic.Int32
	held   *atomic.Int64 // the table's count of run bytes
	class  int           // see pools; -1: of its own
}

const runEntryLen = 13

// exact reports whether keys that share skip bytes and are all keyLen long
// (-1: are not) are equal when their abbreviations are.
func exact(c *base.Comparer, keyLen, skip int) bool {
	return keyLen >= 0 && keyLen <= skip+8 && c.HasAbbrev()
}

// groupEnd is the index behind the entries of the user key that begin at i.
func (r *run) groupEnd(i int) int {
	i++
	if i == len(r.same) || r.same[i] == 0 {
		return i
	}
	if n := bytes.IndexByte(r.same[i:], 0); n >= 0 {
		return i + n
	}
	return len(r.same)
}

// groupStart is the index of the first entry with the user key of entry i.
func (r *run) groupStart(i int) int {
	for r.same[i] != 0 {
		i--
	}
	return i
}

// Runs of less than two chunks come and go beside writes, with every few
// iterators. They lie on the Go heap, since off it pages would come and go with
// each, and are used again: pools[c] has runs with room for smallestPooled<<c
// entries.
const (
	smallestPooled = 32
	pooledClasses  = 9
)

var pools [pooledClasses]sync.Pool

// poolOf is the class of a run of n entries, -1 when it is not pooled.
func poolOf(n int) int {
	if c := bits.Len(uint(max(n, 1)-1) / smallestPooled); c < pooledClasses {
		return c
	}
	return -1
}

func newRun(n int, held *atomic.Int64) (*run, error) {
	r, class := (*run)(nil), poolOf(n)
	if class >= 0 {
		r, _ = pools[class].Get().(*run)
	}
	if r == nil {
		r = new(run)
		if class >= 0 {
			r.mem = allocateHeap(smallestPooled << class * runEntryLen)
		} else if mem, err := allocateWhole(n * runEntryLen); err == nil {
			r.mem = mem
		} else {
			return nil, err
		}
	}
	r.class, r.held, r.plain = class, held, true
	p := unsafe.Pointer(unsafe.SliceData(r.mem))
	r.ab = unsafe.Slice((*uint64)(p), n)
	r.offs = unsafe.Slice((*uint32)(unsafe.Add(p, n*8)), n)
	r.same = r.mem[n*12 : n*13]
	r.refs.Store(1)
	held.Add(int64(cap(r.mem)))
	return r, nil
}

func (r *run) unref() {
	if r.refs.Add(-1) != 0 {
		return
	}
	r.held.Add(-int64(cap(r.mem)))
	mem, class := r.mem, r.class
	*r = run{}
	if class < 0 {
		releaseWhole(mem)
		return
	}
	if invariants.Enabled {
		for i := range mem { // for who still looks at it
			mem[i] = 0xa5
		}
	}
	r.mem = mem
	pools[class].Put(r)
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

// setPrefix notes what all keys share; p lies in the arena. A copy beside the run
// spares each seek a cache miss.
func (r *run) setPrefix(p []byte) {
	r.prefix, r.skip = p, len(p)
	if len(p) <= len(r.lead) {
		r.prefix = r.lead[:copy(r.lead[:], p)]
	}
}

// seek returns the index of the first entry at or after (key, t).
func (r *run) seek(c *base.Comparer, mem *memory, key []byte, t base.Trailer) int {
	n := len(r.offs)
	if !bytes.HasPrefix(key, r.prefix) {
		// All keys of the run lie on the same side.
		if c.Cmp(key, mem.key(r.offs[0])) < 0 {
			return 0
		}
		return n
	}
	ab := c.Abbrev(key, r.skip)
	lo := lowerBound(r.ab, ab)
	if lo == n || r.ab[lo] != ab || t == base.MaxTrailer && len(key) == r.keyLen && exact(c, r.keyLen, r.skip) {
		return lo
	}
	hi := lo + upperBound(r.ab[lo:], ab)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		off := r.offs[mid]
		if c.CompareInternal(mem.key(off), mem.trailer(off), key, t) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func lowerBound(a []uint64, v uint64) int {
	lo, hi := 0, len(a)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if a[mid] < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// upperBound looks near the front first: groups of equal values are short.
func upperBound(a []uint64, v uint64) int {
	step := 1
	for step < len(a) && a[step] == v {
		step *= 2
	}
	lo, hi := step/2, min(step, len(a))
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if a[mid] <= v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
