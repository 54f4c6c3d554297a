package stk

import (
	"runtime"
	"testing"
	"unsafe"
)

// address tells where the caller's frame is. A stack that moves changes it.
//
//go:noinline
func address() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here))
}

// use takes n KiB of stack.
//
//go:noinline
func use(n int) byte {
	var kib [1024]byte
	kib[n&1023] = byte(n)
	if n > 0 {
		kib[0] += use(n - 1)
	}
	return kib[0]
}

// TestReserve wants a stack that does not move while Room, less the room for
// the frames' heads, is used.
func TestReserve(t *testing.T) {
	const kib = Room/1024 - 6
	moved := func(reserve bool) bool {
		result := make(chan bool)
		go func() {
			if reserve {
				Reserve()
			}
			before := address()
			use(kib)
			result <- address() != before
		}()
		return <-result
	}
	if runtime.GOARCH == "amd64" && !moved(false) {
		t.Fatal("a fresh stack had the room already: the test shows nothing")
	}
	if moved(true) {
		t.Error("the stack had to move although Reserve was called")
	}
}

func BenchmarkReserve(b *testing.B) {
	for range b.N {
		Reserve()
	}
}
