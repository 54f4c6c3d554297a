package offheap

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestGoHeap: memory of the Go heap counts, memory off it does not.
func TestGoHeap(t *testing.T) {
	const size = 64 << 20
	debug.FreeOSMemory() // what a test before has freed
	before := GoHeap()
	off, err := Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	if n := GoHeap() - before; n > size/2 {
		t.Errorf("%d bytes more with memory off the heap", n)
	}
	Free(off)
	on := make([]byte, size)
	if n := GoHeap() - before; n < size/2 {
		t.Errorf("%d bytes more with memory on the heap", n)
	}
	runtime.KeepAlive(on)
}
