package memtable

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// pool allocates nodes, which have an index from 1 on and never move: part k holds
// smallestPart<<k of them.
type pool[T any] struct {
	parts [28]atomic.Pointer[T]
	mem   [][]byte
	n     uint32 // nodes taken
}

const smallestPart = 4

// partOf is where node i is.
func partOf(i uint32) (part, at int) {
	i += smallestPart - 1
	part = bits.Len32(i) - bits.Len(smallestPart)
	return part, int(i) - smallestPart<<part
}

// at is node i, which was taken or is reserved.
func (p *pool[T]) at(i uint32) *T {
	part, at := partOf(i)
	first := p.parts[part].Load()
	return (*T)(unsafe.Add(unsafe.Pointer(first), uintptr(at)*unsafe.Sizeof(*first)))
}

// reserve allocates memory for the next n nodes. held is how many bytes that took.
func (p *pool[T]) reserve(n int) (held int64, err error) {
	var t T
	last, _ := partOf(p.n + uint32(n))
	for part := len(p.mem); part <= last; part++ {
		b, err := allocateWhole(smallestPart << part * int(unsafe.Sizeof(t)))
		if err != nil {
			return held, err
		}
		p.mem = append(p.mem, b)
		held += int64(len(b))
		p.parts[part].Store((*T)(unsafe.Pointer(unsafe.SliceData(b))))
	}
	return held, nil
}

// take returns the next node and its index. REQUIRES: it was reserved.
func (p *pool[T]) take() (uint32, *T) {
	p.n++
	return p.n, p.at(p.n)
}

func (p *pool[T]) free() {
	for _, b := range p.mem {
		releaseWhole(b)
	}
	*p = pool[T]{}
}
