// Package stk keeps room on the goroutine stack for signal handlers of the
// program around the library. A handler installed without SA_ONSTACK runs on
// whatever stack the interrupted thread is on; with a C thread inside Go that
// is a goroutine's, which may have a few hundred bytes left.
//
// The collector halves a stack of which less than a quarter is in use, while
// the goroutine waits or at its next function call. Call therefore does not only
// grow the stack: its frame stays, and a stack that holds it, with sizes being
// powers of two, has as much again below.
//
// Call is safe for concurrent use: it touches the caller's stack only.
package stk

// Frame is the size of Call's frame, in bytes. Were it a multiple of 4 KiB, the
// processor would take loads below it for dependent on stores above it.
const Frame = 128<<10 + 1856

// Room is what is free below Call's frame at all times, in bytes, less what f
// and its callees use.
const Room = 120 << 10
