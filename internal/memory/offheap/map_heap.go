//go:build !unix && !windows

package offheap

import "unsafe"

const systemPage = pageSize

// mapPages takes 8-byte aligned memory from the Go heap.
func mapPages(n int) ([]byte, error) {
	w := make([]uint64, n/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n), nil
}

func mapAligned(n int) ([]byte, error) { return mapPages(n) }

func unmapPages([]byte) {}

func adviseHuge([]byte) {}

func releasePages(b []byte) { clear(b) }
