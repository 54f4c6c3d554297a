//go:build !unmap

package offheap

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestStuckPages: memory that the system refuses to unmap is given back, and is unmapped with the
// next one that it does unmap.
func TestStuckPages(t *testing.T) {
	refuse := true
	unmapped := map[unsafe.Pointer]bool{}
	munmap = func(p unsafe.Pointer, n uintptr) error {
		if refuse {
			return unix.ENOMEM
		}
		unmapped[p] = true
		return unix.MunmapPtr(p, n)
	}
	defer func() { munmap = unix.MunmapPtr }()
	const n = maxPiece + 1
	before := InUse()
	pieces := make([][]byte, 3)
	for i := range pieces {
		b, err := Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		for j := range b {
			b[j] = 1
		}
		pieces[i] = b
	}
	Free(pieces[0])
	Free(pieces[1])
	if got := InUse() - before; got != int64(cap(pieces[2])) {
		t.Errorf("%d bytes are in use", got)
	}
	if pieces[0][0] != 0 || pieces[1][n-1] != 0 {
		t.Error("the pages were not given back")
	}
	refuse = false
	Free(pieces[2])
	for i, b := range pieces {
		if !unmapped[unsafe.Pointer(unsafe.SliceData(b))] {
			t.Errorf("piece %d is still mapped", i)
		}
	}
}
