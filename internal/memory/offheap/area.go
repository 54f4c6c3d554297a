package offheap

import (
	"math/bits"
	"sort"
	"sync"
)

// Pieces of more than a slab's and up to maxPiece bytes are runs of pages in chunks that
// they share: the indexes and filters of many small tables lie side by side in huge
// pages, and the buffers of jobs come without page faults.
const (
	chunkPages = hugeSize / pageSize
	maxPiece   = hugeSize
	// The first chunks are small, and have no huge pages: a database that does little
	// takes little.
	smallChunk = 64
	fewPages   = 256
	// A chunk of which so small a part is in use gives its free pages back to the
	// system, as soon as they are worth a system call.
	sparse      = 4
	releaseFrom = 64
)

// area is all chunks.
type area struct {
	mu     sync.Mutex
	chunks []*chunk // ascending by address
	pages  int      // of all chunks
}

var pieces area

// chunk is one mapping.
type chunk struct {
	mem     []byte
	used    pageSet // taken by pieces
	dirty   pageSet // perhaps not zero
	taken   int     // pages in used
	longest int     // no run of free pages is longer
}

func (c *chunk) pages() int { return len(c.mem) / pageSize }

// alloc returns n zeroed bytes; n is a multiple of the page size, up to maxPiece.
func (a *area) alloc(n int) ([]byte, error) {
	b, dirty, err := a.take(n / pageSize)
	if err != nil {
		return nil, err
	}
	for from := dirty.next(0, true); from < chunkPages; {
		to := dirty.next(from, false)
		clear(b[min(from*pageSize, n):min(to*pageSize, n)])
		from = dirty.next(to, true)
	}
	return b, nil
}

// take finds n free pages, in the first chunk that has them. dirty says which of them
// are not zero.
func (a *area) take(n int) (b []byte, dirty pageSet, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.chunks {
		if at := c.find(n); at >= 0 {
			b, dirty = c.take(at, n)
			return b, dirty, nil
		}
	}
	c, err := a.grow(n)
	if err != nil {
		return nil, dirty, err
	}
	b, dirty = c.take(0, n)
	return b, dirty, nil
}

// grow maps a chunk with room for n pages.
func (a *area) grow(n int) (*chunk, error) {
	size := chunkPages
	if n <= smallChunk && a.pages < fewPages {
		size = smallChunk
	}
	mem, err := mapAligned(size * pageSize)
	if err != nil {
		return nil, err
	}
	AdviseHuge(mem)
	c := &chunk{mem: mem, longest: size}
	i := a.find(address(mem))
	a.chunks = append(a.chunks, nil)
	copy(a.chunks[i+1:], a.chunks[i:])
	a.chunks[i] = c
	a.pages += size
	return c, nil
}

// idle is the bytes of free pages that were not given back to the system.
func (a *area) idle() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.chunks {
		n += int64(c.dirty.count() - c.taken)
	}
	return n * pageSize
}

// find returns the index of the first chunk that begins above addr.
func (a *area) find(addr uintptr) int {
	return sort.Search(len(a.chunks), func(i int) bool { return address(a.chunks[i].mem) > addr })
}

func (a *area) free(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := holder(a.find(address(b)), b, func(i int) []byte { return a.chunks[i].mem })
	c := a.chunks[i]
	c.give(int(address(b)-address(c.mem))/pageSize, len(b)/pageSize)
	if c.taken == 0 {
		a.chunks = append(a.chunks[:i], a.chunks[i+1:]...)
		a.pages -= c.pages()
		unmapPages(c.mem)
		return
	}
	if c.taken <= c.pages()/sparse && c.dirty.count()-c.taken >= releaseFrom {
		c.release()
	}
}

// find returns the first of n free pages in a row, -1 if there are none.
func (c *chunk) find(n int) int {
	if n > c.longest {
		return -1
	}
	longest := 0
	for at := c.used.next(0, false); at < c.pages(); {
		end := min(c.used.next(at, true), c.pages())
		if end-at >= n {
			return at
		}
		longest = max(longest, end-at)
		at = c.used.next(end, false)
	}
	c.longest = longest
	return -1
}

// take gives out n free pages from page at on. dirty counts from the first of them.
func (c *chunk) take(at, n int) (b []byte, dirty pageSet) {
	for i := range n {
		if c.dirty.has(at + i) {
			dirty.set(i)
		}
		c.used.set(at + i)
		c.dirty.set(at + i) // soon
	}
	c.taken += n
	return c.mem[at*pageSize : (at+n)*pageSize : (at+n)*pageSize], dirty
}

func (c *chunk) give(at, n int) {
	for i := range n {
		c.used.clear(at + i)
	}
	c.taken -= n
	c.longest = c.pages() // perhaps
}

// release gives the free pages back to the system.
func (c *chunk) release() {
	free := c.dirty
	for i := range free {
		free[i] &^= c.used[i]
		c.dirty[i] &= c.used[i]
	}
	for from := free.next(0, true); from < chunkPages; {
		to := free.next(from, false)
		Release(c.mem[from*pageSize : to*pageSize])
		from = free.next(to, true)
	}
}

// pageSet is a set of a chunk's pages.
type pageSet [chunkPages / 64]uint64

func (s *pageSet) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s *pageSet) set(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *pageSet) clear(i int)    { s[i/64] &^= 1 << (i % 64) }

func (s *pageSet) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// next returns the first page from i on that is in the set, or not in it; chunkPages if
// there is none.
func (s *pageSet) next(i int, in bool) int {
	for i < chunkPages {
		w := s[i/64]
		if !in {
			w = ^w
		}
		if w >>= i % 64; w != 0 {
			return i + bits.TrailingZeros64(w)
		}
		i = i&^63 + 64
	}
	return chunkPages
}
