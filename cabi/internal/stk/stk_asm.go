//go:build amd64 || arm64

package stk

// Reserve grows the stack, if need be, so that Room bytes are left below the
// caller. Its body is empty: the work is done by the prologue that the
// assembler adds for its frame.
func Reserve()
