//go:build !amd64 && !arm64

package stk

// Call calls f with Room bytes of stack below it, until f returns. Clearing the
// frame makes it slow here.
//
//go:noinline
func Call(f func()) {
	var frame [Frame]byte
	touch(&frame)
	f()
	touch(&frame)
}

//go:noinline
func touch(frame *[Frame]byte) { frame[0]++ }
