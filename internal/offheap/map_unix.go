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
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		refused(err)
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

func unmapPages(b []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))); err != nil {
		panic("offheap: munmap: " + err.Error())
	}
}
