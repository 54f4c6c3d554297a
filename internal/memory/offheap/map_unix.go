//go:build unix

package offheap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var systemPage = os.Getpagesize()

func mapPages(n int) ([]byte, error) {
	if err := takeReserve(); err != nil {
		return nil, err
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|
		unix.MAP_PRIVATE)
	if err != nil {
		refused(err)
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// mapAligned maps n bytes, n being up to hugeSize, where they can be in one huge page.
func mapAligned(n int) ([]byte, error) {
	mem, err := mapPages(n)
	if err != nil || n < hugeSize || len(inside(mem, hugeSize)) == n {
		return mem, err
	}
	unmapPages(mem)
	if mem, err = mapPages(n + hugeSize); err != nil {
		return mapPages(n)
	}
	lead := -int(address(mem)) & (hugeSize - 1)
	if lead > 0 {
		unmapPages(mem[:lead:lead])
	}
	if lead < hugeSize {
		unmapPages(mem[lead+n:])
	}
	return mem[lead : lead+n : lead+n], nil
}

func unmapPages(b []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))); err != nil {
		panic("offheap: munmap: " + err.Error())
	}
}
