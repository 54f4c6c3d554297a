//go:build !unmap || !linux

package cache

import "unsafe"

// apart is where the bytes of a frame are in builds with offheap.Unmap.
type apart struct{}

// start is where the bytes of a frame begin.
func (h *header) start() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(h), headerLen) }

func (h *header) allocate(int64) bool { return true }
func (h *header) free()               {}

// moveTo copies a frame of size bytes, which may overlap.
func (h *header) moveTo(to *header, size int64) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(to)), size), unsafe.Slice((*byte)(unsafe.Pointer(h)),
		size))
}
