//go:build !unmap

package offheap

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ranges are addresses kept for extents by convention: far from where the kernel,
// the Go heap, and the shadow memory of sanitizers (below 0x1100_0000_0000) put
// theirs, each with room for its limit. Only what an extent has is mapped there,
// so only that counts against RLIMIT_AS. Nothing breaks when other code maps
// memory in between: MAP_FIXED_NOREPLACE then refuses, and the extent ends there,
// or is mapped elsewhere as a whole.
const (
	firstRange = 0x1100_0000_0000
	endRange   = 0x1f00_0000_0000
	rangeAlign = hugeSize
)

var ranges = struct {
	sync.Mutex
	next uintptr
	free map[int][]uintptr // by size
	none bool              // the kernel does not map here
}{free: map[int][]uintptr{}}

// takeRange finds addresses for limit bytes, 0 for none.
func takeRange(limit int) uintptr {
	r := &ranges
	r.Lock()
	defer r.Unlock()
	if pointerBits == 32 || r.none {
		return 0
	}
	if free := r.free[limit]; len(free) > 0 {
		r.free[limit] = free[:len(free)-1]
		return free[len(free)-1]
	}
	if r.next == 0 {
		r.next = firstRange + uintptr(rand.Uint64N(1<<18))*rangeAlign
	}
	if uint64(r.next)+uint64(limit) > endRange {
		return 0
	}
	addr := r.next
	r.next += (uintptr(limit) + 2*rangeAlign - 1) &^ (rangeAlign - 1) // a gap after each
	return addr
}

func giveRange(addr uintptr, limit int) {
	ranges.Lock()
	ranges.free[limit] = append(ranges.free[limit], addr)
	ranges.Unlock()
}

// mapRange maps n bytes behind which there is room up to limit. ok is false where
// that does not work; the caller then maps all of it.
func mapRange(n, limit int, touch bool) (mem []byte, ok bool) {
	for range 3 {
		addr := takeRange(limit)
		if addr == 0 {
			return nil, false
		}
		p, err := mapAt(addr, n, touch)
		switch {
		case err == nil && uintptr(p) == addr:
			return at(p, n, limit), true
		case err == nil: // a kernel before 4.17, or one with other address spaces
			_ = unix.MunmapPtr(p, uintptr(n))
		case err == unix.EEXIST: // other code has mapped memory here: never come back
			continue
		case err == unix.ENOMEM && limit > n:
			giveRange(addr, limit)
			return nil, false
		}
		ranges.Lock()
		ranges.none = true
		ranges.Unlock()
		return nil, false
	}
	return nil, false
}

func mapAt(addr uintptr, n int, touch bool) (unsafe.Pointer, error) {
	if err := takeReserve(); err != nil {
		return nil, err
	}
	flags := unix.MAP_ANON | unix.MAP_PRIVATE | unix.MAP_FIXED_NOREPLACE
	if touch {
		flags |= unix.MAP_POPULATE
	}
	p, err := unix.MmapPtr(-1, 0, *(*unsafe.Pointer)(unsafe.Pointer(&addr)), uintptr(n),
		unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		refused(err)
	}
	return p, err
}

// growRange maps what lies behind mem, up to n bytes.
func growRange(mem []byte, n int, touch bool) error {
	addr := address(mem) + uintptr(len(mem))
	p, err := mapAt(addr, n-len(mem), touch)
	if err == nil && uintptr(p) != addr {
		_ = unix.MunmapPtr(p, uintptr(n-len(mem)))
		err = unix.EEXIST
	}
	return err
}

func unmapRange(mem []byte) {
	if len(mem) > 0 {
		unmapPages(mem)
	}
	giveRange(address(mem), cap(mem))
}

// movesFailed says that the kernel did not move pages.
var movesFailed atomic.Bool

func canMove() bool { return !movesFailed.Load() }

// movePages maps the pages of from at to, in place of the memory there. Both are as long. If the
// kernel refuses, there is no memory at to.
func movePages(to, from []byte) bool {
	p, n := unsafe.Pointer(unsafe.SliceData(to)), uintptr(len(to))
	q, err := unix.MremapPtr(unsafe.Pointer(unsafe.SliceData(from)), n, p, n,
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if err == nil && q == p {
		return true
	}
	movesFailed.Store(true)
	unmapPages(to) // unless the kernel did before it refused
	return false
}
