//go:build unmap

package cache

import (
	"unsafe"

	"github.com/loamdb/loam/internal/memory/offheap"
)

// apart is where the bytes of a frame are: beside the ring, so that they are unreadable as soon as
// the frame is not in the cache any more, and stay so. The ring has the headers alone.
type apart struct {
	at uintptr
	n  int64
}

// start is where the bytes of a frame begin.
func (h *header) start() unsafe.Pointer {
	if h.flags&flagTransient != 0 {
		return unsafe.Add(unsafe.Pointer(h), headerLen)
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&h.at))
}

// allocate gets memory for a frame of size bytes, its header included.
func (h *header) allocate(size int64) bool {
	mem, err := offheap.Alloc(int(size))
	if err == nil {
		h.at, h.n = uintptr(unsafe.Pointer(unsafe.SliceData(mem))), int64(cap(mem))
	}
	return err == nil
}

func (h *header) free() {
	offheap.Free(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&h.at))), h.n))
	h.apart = apart{}
}

// moveTo copies a frame to one that has memory.
func (h *header) moveTo(to *header, _ int64) {
	to.state.Store(h.state.Load())
	to.slot.Store(h.slot.Load())
	to.len, to.size, to.flags = h.len, h.size, h.flags
	copy(unsafe.Slice((*byte)(to.start()), to.len), unsafe.Slice((*byte)(h.start()), h.len))
}
