package offheap

import (
	"math/bits"
	"sort"
	"sync"
	"unsafe"
)

// Size classes are 64 << k and 96 << k, up to maxSlab.
const (
	minClassBits = 6
	numClasses   = 2*(12-minClassBits) + 1
	spanSize     = 64 << 10
)

func classOf(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	e := bits.Len(uint(n-1)) - 1 // 1<<e < n <= 2<<e
	c := 2 * (e - minClassBits)
	if n <= 3<<(e-1) {
		return c + 1
	}
	return c + 2
}

func classSize(c int) int {
	if c&1 == 1 {
		return 96 << (c / 2)
	}
	return 64 << (c / 2)
}

var slabs = func() *[numClasses]slab {
	s := new([numClasses]slab)
	for c := range s {
		s[c].size = classSize(c)
	}
	return s
}()

// slab serves one size class out of spans.
type slab struct {
	mu    sync.Mutex
	size  int
	spans []*span // ascending by address
	open  []*span // those with room, in no order
}

// span is a piece cut into equal pieces. Pieces at next and after were never handed out.
type span struct {
	mem     []byte
	dirty   bool // pieces at next and after may not be zero: earlier spans had the pages
	next    int
	used    int
	freed   []int32 // byte offsets of pieces that came back
	openPos int     // index in slab.open, -1 when full
}

func (s *slab) alloc() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		if err := s.grow(); err != nil {
			return nil, err
		}
	}
	sp := s.open[len(s.open)-1]
	sp.used++
	off, dirty := sp.next, sp.dirty
	if k := len(sp.freed); k > 0 {
		off, dirty = int(sp.freed[k-1]), true
		sp.freed = sp.freed[:k-1]
	} else {
		sp.next += s.size
	}
	if dirty {
		clear(sp.mem[off : off+s.size])
	}
	if len(sp.freed) == 0 && sp.next+s.size > len(sp.mem) {
		s.close(sp)
	}
	return sp.mem[off : off+s.size : off+s.size], nil
}

// grow adds a span, which is not cleared: a buffer that grows has one piece of each class.
func (s *slab) grow() error {
	mem, dirty, err := pieces.take(spanSize / pageSize)
	if err != nil {
		return err
	}
	sp := &span{mem: mem, dirty: dirty != pageSet{}, openPos: len(s.open)}
	s.open = append(s.open, sp)
	i := s.find(address(mem))
	s.spans = append(s.spans, nil)
	copy(s.spans[i+1:], s.spans[i:])
	s.spans[i] = sp
	return nil
}

// holder returns which mapping b lies in, above being the first that begins above it.
func holder(above int, b []byte, mem func(i int) []byte) int {
	i := above - 1
	if i < 0 || address(b)-address(mem(i)) >= uintptr(len(mem(i))) {
		panic("offheap: freed memory that was not allocated here")
	}
	return i
}

// find returns the index of the first span that begins above addr.
func (s *slab) find(addr uintptr) int {
	return sort.Search(len(s.spans), func(i int) bool { return address(s.spans[i].mem) > addr })
}

// close takes sp off the list of spans with room.
func (s *slab) close(sp *span) {
	last := s.open[len(s.open)-1]
	s.open[sp.openPos] = last
	last.openPos = sp.openPos
	s.open[len(s.open)-1] = nil
	s.open = s.open[:len(s.open)-1]
	sp.openPos = -1
}

func (s *slab) free(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := holder(s.find(address(b)), b, func(i int) []byte { return s.spans[i].mem })
	sp := s.spans[i]
	if sp.openPos < 0 {
		sp.openPos = len(s.open)
		s.open = append(s.open, sp)
	}
	sp.used--
	if sp.used == 0 {
		s.close(sp)
		s.spans = append(s.spans[:i], s.spans[i+1:]...)
		pieces.free(sp.mem)
		return
	}
	sp.freed = append(sp.freed, int32(address(b)-address(sp.mem)))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
