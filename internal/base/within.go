package base

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrInUse marks a call within a callback that would wait for what waits for the callback.
var ErrInUse = errors.New("in use")

// callers are the functions through which callbacks are called, by their names, and the callbacks.
var callers sync.Map

// Caller notes that f calls a callback, for NotWithin. It is of use as the value of a variable of
// the package that has f.
func Caller(callback string, f any) struct{} {
	callers.Store(runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name(), callback)
	return struct{}{}
}

// NotWithin fails with ErrInUse if the goroutine is in a callback. It looks at the stack, which
// takes microseconds: it is for calls that wait, or are about to.
func NotWithin() error {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if callback, ok := callers.Load(f.Function); ok {
				return fmt.Errorf("%w: a %s must not make this call, which would wait for it",
					ErrInUse, callback)
			}
		}
		if n < len(pcs) {
			return nil
		}
	}
}

// asking is how many compaction filters are being called.
var asking atomic.Int32

// NotWithinFilter is NotWithin for writes that wait for others. It looks at the stack while there
// is a filter that may be waiting for them.
func NotWithinFilter() error {
	if asking.Load() == 0 {
		return nil
	}
	return NotWithin()
}
