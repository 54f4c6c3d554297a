package offheap

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

const systemPage = pageSize

func mapPages(n int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT,
		windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address is outside the Go heap; reading it through a pointer to it
	// keeps vet's rule about uintptr conversions.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return unsafe.Slice((*byte)(p), n), nil
}

func mapAligned(n int) ([]byte, error) { return mapPages(n) }

func unmapPages(b []byte) {
	if err := windows.VirtualFree(address(b), 0, windows.MEM_RELEASE); err != nil {
		panic("offheap: VirtualFree: " + err.Error())
	}
}

func adviseHuge([]byte) {}

// releasePages only zeroes: a decommitted range could fail to come back.
func releasePages(b []byte) { clear(b) }
