//go:build cgo

package main

/*
#include "shim.h"
#cgo noescape loamgo_filter
*/
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/lsm"
)

// filter makes a compaction filter that asks C.
func filter(name string, fn, arg C.uintptr_t) *lsm.CompactionFilter {
	return &lsm.CompactionFilter{Name: report.Printable(name),
		Filter: func(level int, key, value []byte) (lsm.FilterDecision, error) {
			r := C.loamgo_filter(fn, arg, C.int(level),
				(*C.uchar)(unsafe.SliceData(key)), C.size_t(len(key)),
				(*C.uchar)(unsafe.SliceData(value)), C.size_t(len(value)))
			if r.value != nil {
				defer C.loamgo_release(r.value)
			}
			switch {
			case r.failure != 0:
				return lsm.FilterKeep, reported("compaction filter", r.failure)
			case r.decision == C.LOAM_FILTER_KEEP:
				return lsm.FilterKeep, nil
			case r.decision == C.LOAM_FILTER_REMOVE:
				return lsm.FilterRemove, nil
			case r.decision != C.LOAM_FILTER_CHANGE:
				return lsm.FilterKeep, fmt.Errorf("%d is no decision of a filter", int(r.decision))
			case r.value == nil && r.len > 0:
				return lsm.FilterKeep, fmt.Errorf("NULL is no value of %d bytes", uint64(r.len))
			case r.len >= C.MAX_BYTES:
				return lsm.FilterKeep, fmt.Errorf("%w: a value of %d bytes", lsm.ErrTooLarge,
					uint64(r.len))
			}
			return lsm.FilterChange(bytes.Clone(unsafe.Slice((*byte)(r.value), int(r.len)))), nil
		}}
}

//export loamgo_options_set_compaction_filter
func loamgo_options_set_compaction_filter(h C.uint64_t, name *C.char, fn, arg, destroy C.uintptr_t,
	message **C.char) status {
	return run(message, func() error {
		return bring(h, settings.Filter, destroyed(destroy, arg), func(o *lsm.Options) {
			o.CompactionFilter = filter(C.GoString(name), fn, arg)
		})
	})
}
