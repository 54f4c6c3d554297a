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
func NotWithin() error { return notWithin("") }

// NotWithinComparer is NotWithin of comparers alone.
func NotWithinComparer() error { return notWithin(comparerCallback) }

const comparerCallback = "comparer"

// The frames of a comparer are below Cmp, which alone calls it.
var _ = Caller(comparerCallback, (*Comparer).Cmp)

// notWithin is NotWithin of one callback, or of all.
func notWithin(only string) error {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if callback, ok := callers.Load(f.Function); ok && (only == "" || callback == only) {
				return fmt.Errorf("%w: a %s must not make this call, which would wait for it",
					ErrInUse, callback)
			}
		}
		if n < len(pcs) {
			return nil
		}
	}
}

// asking is how many callbacks are being called by flushes and compactions, for which writes may
// wait.
var asking atomic.Int32

// BeginAsking says that a flush or compaction calls a callback, until EndAsking.
func BeginAsking() { asking.Add(1) }

// EndAsking ends what BeginAsking began.
func EndAsking() { asking.Add(-1) }

// NotWithinBackground is NotWithin for writes that wait for others. It looks at the stack while
// flushes and compactions call callbacks.
func NotWithinBackground() error {
	if asking.Load() == 0 {
		return nil
	}
	return NotWithin()
}
