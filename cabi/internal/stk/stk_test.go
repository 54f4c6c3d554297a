package stk

import (
	"errors"
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

const kib = Room/1024 - 8 // less the room for the frames' heads

// moves reports whether the stack has to move while kib KiB are used.
//
//go:noinline
func moves() bool {
	before := address()
	use(kib)
	return address() != before
}

// TestRoom wants a stack that does not move while Room is used.
func TestRoom(t *testing.T) {
	moved := func(call bool) bool {
		result := make(chan bool)
		go func() {
			moved := false
			if call {
				Call(func() { moved = moves() })
			} else {
				moved = moves()
			}
			result <- moved
		}()
		return <-result
	}
	if runtime.GOARCH == "amd64" && !moved(false) {
		t.Fatal("a fresh stack had the room already: the test shows nothing")
	}
	if moved(true) {
		t.Error("the stack had to move although Call was called")
	}
}

// TestShrink wants the room to be there after the collector had every chance to
// halve the stack of a goroutine that waits.
func TestShrink(t *testing.T) {
	wait, result := make(chan struct{}), make(chan bool)
	go Call(func() {
		<-wait
		result <- moves()
	})
	for range 10 {
		runtime.GC()
	}
	close(wait)
	if <-result {
		t.Error("the stack shrank while the goroutine waited, and had to move again")
	}
}

// TestGrow wants frame and arguments to survive a stack that moves below Call.
func TestGrow(t *testing.T) {
	done := make(chan int)
	go func() {
		n := 0
		p := &n
		Call(func() {
			for range 300 {
				use(*p)
				n++
				runtime.Gosched()
			}
		})
		done <- n
	}()
	if n := <-done; n != 300 {
		t.Errorf("%d rounds, want 300", n)
	}
}

// TestPanic lets a panic pass.
func TestPanic(t *testing.T) {
	want := errors.New("the panic")
	defer func() {
		if r := recover(); r != want {
			t.Errorf("recovered %v", r)
		}
	}()
	Call(func() { panic(want) })
}

func TestAllocs(t *testing.T) {
	n := 0
	if got := testing.AllocsPerRun(100, func() { Call(func() { n++ }) }); got != 0 {
		t.Errorf("%v allocations a call", got)
	}
}

func BenchmarkCall(b *testing.B) {
	n := 0
	for range b.N {
		Call(func() { n++ })
	}
}
