//go:build !amd64 && !arm64

package stk

// Reserve grows the stack, if need be, so that Room bytes are left below the
// caller.
//
//go:noinline
func Reserve() {
	var room [Room]byte
	touch(&room)
}

//go:noinline
func touch(room *[Room]byte) { room[0] = 1 }
