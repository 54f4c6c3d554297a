//go:build cgo

package main

/*
#include <stdlib.h>

#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/reads"
	"github.com/loamdb/loam/lsm"
)

// pinned is what a kindPinned handle stands for. What C reads of it lies off Go's heap: in memory
// of the database, or in memory of malloc's that has a copy.
type pinned struct {
	value lsm.PinnedValue
	copy  *C.char // NULL: value has the bytes
}

func (p *pinned) close() {
	p.value.Release()
	C.free(unsafe.Pointer(p.copy))
	p.copy = nil
}

// loamgo_get_pinned looks a key up and stores the value's address, 0 for an empty one.
//
//export loamgo_get_pinned
func loamgo_get_pinned(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint64_t,
	out *C.uint64_t, at *C.uintptr_t, length *C.size_t, message **C.char) status {
	return run(message, func() error {
		d, s, err := open(db, snap)
		if err != nil {
			return err
		}
		p := new(pinned)
		bytes, err := reads.Pin(d.Keyspace, s, span(key, keyLen), uint64(flags), &p.value)
		if err != nil {
			return err
		}
		address := uintptr(0)
		if bytes == nil {
			bytes = p.value.Bytes()
			address = uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
		} else {
			p.copy = text(unsafe.String(unsafe.SliceData(bytes), len(bytes)))
			if p.copy == nil {
				return lsm.ErrNoMemory
			}
			address = uintptr(unsafe.Pointer(p.copy))
		}
		if err := publish(kindPinned, p, out); err != nil {
			p.close()
			return err
		}
		if *length = C.size_t(len(bytes)); len(bytes) > 0 {
			*at = C.uintptr_t(address)
		}
		return nil
	})
}
