//go:build unix && !linux

package offheap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func adviseHuge([]byte) {}

// releasePages maps fresh zero pages over b: elsewhere than on Linux
// MADV_DONTNEED and MADV_FREE do not promise zeroes.
func releasePages(b []byte) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	_, err := unix.MmapPtr(-1, 0, p, uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|
		unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		clear(b)
	}
}
