//go:build cgo

package main

/*
#include "shim.h"
#cgo noescape loamgo_compare
#cgo noescape loamgo_log
*/
import "C"

import (
	"log/slog"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/textlog"
	"github.com/loamdb/loam/lsm"
)

// Function and argument pointers of C are kept as integers: they are opaque
// to Go and may be any value.

// destroyed calls a destroy function at the end, nil for none.
func destroyed(fn, arg C.uintptr_t) *refs.Shared {
	if fn == 0 {
		return nil
	}
	return refs.New(func() { C.loamgo_call_destroy(fn, arg) })
}

// reported takes over what C knows of a failure.
func reported(callback string, p C.intptr_t) *lsm.CallbackError {
	words := C.GoString(C.loamgo_failure_text(p))
	C.loamgo_failure_free(p)
	return &lsm.CallbackError{Callback: callback, Reason: report.Printable(words)}
}

// comparer makes a comparer that asks C. A failure becomes a panic, which the
// engine answers by making the database read-only.
func comparer(name string, fn, arg C.uintptr_t, flags C.uint) *lsm.Comparer {
	c := &lsm.Comparer{
		Name:            name,
		EqualIsBytewise: flags&C.LOAM_COMPARATOR_EQUAL_IS_BYTEWISE != 0,
		// A pointer to bytes: of an unsafe.Pointer cgo would check everything
		// around the key for Go pointers.
		Compare: func(a, b []byte) int {
			order := C.loamgo_compare(fn, arg,
				(*C.uchar)(unsafe.SliceData(a)), C.size_t(len(a)),
				(*C.uchar)(unsafe.SliceData(b)), C.size_t(len(b)))
			if order < -1 || order > 1 {
				panic(reported("comparator", order))
			}
			return int(order)
		},
	}
	if flags&C.LOAM_COMPARATOR_CALLERS_THREAD != 0 {
		c.Interrupted = func() bool { return C.loamgo_interrupted() != 0 }
	}
	return c
}

// logger makes a logger that calls C, nil for no function.
func logger(fn, arg C.uintptr_t) *slog.Logger {
	if fn == 0 {
		return nil
	}
	return slog.New(textlog.New(func(level slog.Level, line []byte) *lsm.CallbackError {
		if p := C.loamgo_log(fn, arg, C.int(level), (*C.char)(unsafe.Pointer(&line[0]))); p != 0 {
			return reported("logger", p)
		}
		return nil
	}))
}
