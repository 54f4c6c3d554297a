// Package stk keeps room on the goroutine stack for signal handlers of the
// program around the library. A handler installed without SA_ONSTACK runs on
// whatever stack the interrupted thread is on; with a C thread inside Go that
// is a goroutine's, which may have a few hundred bytes left.
//
// Reserve is safe for concurrent use: it touches the caller's stack only.
package stk

// Room is what Reserve leaves below its caller, in bytes.
const Room = 32 << 10
