package memtable

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// pool holds nodes, which do not move. Part k has smallestPart<<k of them.
type pool[T any] struct {
	parts [28]atomic.Pointer[T]
	mem   [][]byte
	n     uint32 // given out
}

const smallestPart = 4

func partOf(i uint32) (part, at int) {
	i += smallestPart - 1
	part = bits.Len32(i) - bits.Len(smallestPart)
	return part, int(i) - smallestPart<<part
}

// at is node i, which was given out or is reserved.
func (p *pool[T]) at(i uint32) *T {
	part, at := partOf(i)
	first := p.parts[part].Load()
	return (*T)(unsafe.Add(unsafe.Pointer(first), uintptr(at)*unsafe.Sizeof(*first)))
}

// reserve makes sure that the next n nodes need no memory, and tells how many
// bytes that took.
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

// take gives out a reserved node.
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
