//go:build cgo

package main

/*
#include "shim.h"
#cgo noescape loamgo_merge_full
#cgo noescape loamgo_merge_partial
*/
import "C"

import (
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/lsm"
)

// mergeOperator makes a merge operator that asks C. A failure is the error of Full, or a
// panic of Partial with a *lsm.CallbackError, which the engine tells in the same way.
func mergeOperator(name string, full, partial, arg C.uintptr_t) *lsm.MergeOperator {
	o := &lsm.MergeOperator{Name: name}
	o.Full = func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
		var data []byte
		ends := make([]C.uint64_t, len(operands))
		for i, operand := range operands {
			data = append(data, operand...)
			ends[i] = C.uint64_t(len(data))
		}
		exists := C.int(0)
		if existing != nil {
			exists = 1
		}
		var out unsafe.Pointer
		var outLen C.size_t
		failure := C.loamgo_merge_full(full, arg, bytesOf(key), C.size_t(len(key)),
			bytesOf(existing), C.size_t(len(existing)), exists,
			bytesOf(data), unsafe.SliceData(ends), C.size_t(len(ends)), &out, &outLen)
		if failure != 0 {
			return nil, reported("merge operator", failure)
		}
		return taken(dst, out, outLen), nil
	}
	if partial == 0 {
		return o
	}
	o.Partial = func(dst, key, left, right []byte) ([]byte, bool) {
		var out unsafe.Pointer
		var outLen C.size_t
		var joined C.int
		failure := C.loamgo_merge_partial(partial, arg, bytesOf(key), C.size_t(len(key)),
			bytesOf(left), C.size_t(len(left)),
			bytesOf(right), C.size_t(len(right)), &joined, &out, &outLen)
		if failure != 0 {
			panic(reported("merge operator", failure))
		}
		return taken(dst, out, outLen), joined != 0
	}
	return o
}

// bytesOf is a pointer to bytes: of an unsafe.Pointer cgo would check everything around them
// for Go pointers.
func bytesOf(b []byte) *C.uchar { return (*C.uchar)(unsafe.SliceData(b)) }

// taken appends the result of a callback, which it frees, to dst.
func taken(dst []byte, p unsafe.Pointer, n C.size_t) []byte {
	if p == nil {
		return dst
	}
	dst = append(dst, span(p, n)...)
	C.loamgo_release(p)
	return dst
}

//export loamgo_options_set_merge_operator
func loamgo_options_set_merge_operator(h C.uint64_t, name *C.char, full, partial, arg,
	destroy C.uintptr_t, message **C.char) status {
	return run(message, func() error {
		return bring(h, settings.Merge, destroyed(destroy, arg), func(o *lsm.Options) {
			o.MergeOperator = mergeOperator(C.GoString(name), full, partial, arg)
		})
	})
}
