//go:build unmap

package offheap

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// In this build each piece has pages of its own, which become unreadable when it is freed, and
// whose addresses are never used again. So a read of freed memory is a fault, however long ago the
// piece was freed. Pieces in use lie side by side: Linux counts mappings, see vm.max_map_count.

// Unmap reports that freed memory is unreadable in this build.
const Unmap = true

// regionSize is how many addresses are reserved at a time. There are 128 of them on 64-bit systems.
const regionSize = 1 << 40

// regions are the addresses that were reserved. They are used from the first to the last.
var regions struct {
	sync.Mutex
	all   []region
	next  uintptr  // in the last region
	other []region // retired addresses that were mapped elsewhere
}

type region struct{ start, end uintptr }

// reserveAnew returns n addresses.
func reserveAnew(n int) (uintptr, error) {
	r := &regions
	r.Lock()
	defer r.Unlock()
	n = roundUp(n)
	if len(r.all) == 0 || r.all[len(r.all)-1].end-r.next < uintptr(n) {
		size := uintptr(max(n, regionSize))
		p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|
			unix.MAP_NORESERVE)
		if err != nil {
			return 0, err
		}
		r.all = append(r.all, region{uintptr(p), uintptr(p) + size})
		r.next = uintptr(p)
	}
	addr := r.next
	r.next += uintptr(n)
	return addr, nil
}

// allocAnew returns n bytes, a multiple of the page size, at addresses that were never used.
func allocAnew(n int) ([]byte, error) {
	mem, err := extendAnew(n, n)
	return mem, err
}

// extendAnew is allocAnew with room up to limit.
func extendAnew(n, limit int) ([]byte, error) {
	addr, err := reserveAnew(limit)
	if err != nil {
		return nil, err
	}
	mem := at(*(*unsafe.Pointer)(unsafe.Pointer(&addr)), n, limit)
	return mem, unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE)
}

func mapRange(n, limit int, _ bool) (mem []byte, ok bool) {
	mem, err := extendAnew(n, limit)
	return mem, err == nil
}

func growRange(mem []byte, n int, _ bool) error {
	return unix.Mprotect(mem[len(mem):n], unix.PROT_READ|unix.PROT_WRITE)
}

func unmapRange(mem []byte) {
	if err := Retire(mem[:cap(mem)]); err != nil {
		panic("offheap: making freed memory unreadable: " + err.Error())
	}
}

func canMove() bool { return false }

func movePages(_, _ []byte) bool { return false }

// Retire makes the pages of b, which may be a mapped file, unreadable for good.
func Retire(b []byte) error {
	r := &regions
	r.Lock()
	if !holds(r.all, address(b)) {
		r.other = append(r.other, region{address(b), address(b) + uintptr(roundUp(len(b)))})
	}
	r.Unlock()
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)),
		unix.PROT_NONE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// CheckFault panics if addr, at which there was a fault, is that of freed memory.
func CheckFault(addr uintptr) {
	r := &regions
	r.Lock()
	defer r.Unlock()
	if holds(r.all, addr) || holds(r.other, addr) {
		panic(fmt.Sprintf("offheap: memory at %#x is used after it was freed", addr))
	}
}

func holds(list []region, addr uintptr) bool {
	return slices.ContainsFunc(list, func(r region) bool { return r.start <= addr && addr < r.end })
}
