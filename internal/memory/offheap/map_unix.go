//go:build unix

package offheap

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
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

// munmap is munmap(2), other functions are for tests.
var munmap = unix.MunmapPtr

// stuck are freed pages that the system did not unmap. Linux makes one mapping of neighbours, and
// refuses to cut it in two when the process has as many mappings as vm.max_map_count allows. The
// pages are given back all the same; their addresses are taken until unmapPages succeeds again.
var stuck struct {
	some atomic.Bool
	mu   sync.Mutex
	all  [][]byte // guarded by mu
}

func unmapPages(b []byte) {
	if !unmapped(b) {
		releasePages(b)
		stuck.mu.Lock()
		defer stuck.mu.Unlock()
		stuck.all = append(stuck.all, b)
		stuck.some.Store(true)
		return
	}
	if stuck.some.Load() {
		stuck.mu.Lock()
		defer stuck.mu.Unlock()
		stuck.all = slices.DeleteFunc(stuck.all, unmapped)
		stuck.some.Store(len(stuck.all) > 0)
	}
}

// unmapped unmaps b, and reports false where the system has no memory for that.
func unmapped(b []byte) bool {
	err := munmap(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
	if err != nil && err != unix.ENOMEM {
		panic("offheap: munmap: " + err.Error())
	}
	return err == nil
}
