//go:build unmap

package offheap

import (
	"runtime/debug"
	"strings"
	"testing"
)

// faults reports whether reading b is a fault, which CheckFault knows as one of freed memory.
func faults(t *testing.T, b []byte) (fault bool) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		f, ok := recover().(interface{ Addr() uintptr })
		if fault = ok; !fault {
			return
		}
		defer func() {
			if s, _ := recover().(string); !strings.Contains(s, "after it was freed") {
				t.Errorf("%q", s)
			}
		}()
		CheckFault(f.Addr())
	}()
	sum := byte(0)
	for _, x := range b {
		sum += x
	}
	return sum != 0
}

// TestFreedMemoryIsUnreadable frees pieces of all kinds, and allocates others, which never get
// their addresses.
func TestFreedMemoryIsUnreadable(t *testing.T) {
	for _, n := range []int{1, 100, pageSize, 3*pageSize + 1, maxPiece, maxPiece + 1} {
		freed := map[uintptr]bool{}
		for range 100 {
			b, err := Alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			if freed[address(b)] {
				t.Fatalf("%d bytes have the address of a piece that was freed", n)
			}
			b[0], b[n-1] = 0, 0
			if faults(t, b) {
				t.Fatalf("%d bytes cannot be read", n)
			}
			Free(b)
			freed[address(b)] = true
			if !faults(t, b[:1]) || !faults(t, b[n-1:]) {
				t.Fatalf("%d bytes are read after they were freed", n)
			}
		}
	}
	e, err := NewExtent(pageSize, 4*pageSize)
	if err != nil {
		t.Fatal(err)
	}
	whole := e.Whole()
	if err := e.Grow(2 * pageSize); err != nil || faults(t, whole[:2*pageSize]) ||
		!faults(t, whole[2*pageSize:]) {
		t.Errorf("an extent of two pages: %v", err)
	}
	e.Free()
	if !faults(t, whole) || faults(t, make([]byte, 1)) {
		t.Error("an extent is read after it was freed")
	}
}
