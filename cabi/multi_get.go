//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/reads"
	"github.com/loamdb/loam/lsm"
)

// The flags are C's.
var _ = [1]struct{}{}[(C.LOAM_NO_FILL^reads.NoFill)|(C.LOAM_MEMORY_ONLY^reads.MemoryOnly)]

// loamgo_multi_get looks up n keys and lays the values into one malloc'ed
// block, each followed by a zero byte.
//
//export loamgo_multi_get
func loamgo_multi_get(db, snap C.uint64_t, n C.size_t, keys *unsafe.Pointer, keyLens *C.size_t,
	flags C.uint64_t, values *unsafe.Pointer, valueLens *C.size_t, memory *unsafe.Pointer,
	message **C.char) status {
	return run(message, func() error {
		d, s, err := open(db, snap)
		if err != nil || n == 0 {
			return err
		}
		return multiGetBy(n, keys, keyLens, values, valueLens, memory, func(m *reads.Many) error {
			return m.Look(d.Keyspace, s, uint64(flags))
		})
	})
}

//export loamgo_txn_multi_get
func loamgo_txn_multi_get(h, keyspace C.uint64_t, n C.size_t, keys *unsafe.Pointer,
	keyLens *C.size_t, values *unsafe.Pointer, valueLens *C.size_t, memory *unsafe.Pointer,
	message **C.char) status {
	return withTxn(message, h, keyspace, func(_ *transaction, tx *lsm.Txn) error {
		return multiGetBy(n, keys, keyLens, values, valueLens, memory, func(m *reads.Many) error {
			return m.LookTxn(tx)
		})
	})
}

// multiGetBy hands the keys to look and what it finds to C.
func multiGetBy(n C.size_t, keys *unsafe.Pointer, keyLens *C.size_t, values *unsafe.Pointer,
	valueLens *C.size_t, memory *unsafe.Pointer, look func(m *reads.Many) error) error {
	m := reads.NewMany()
	defer m.Free()
	if n > 0 {
		lens := unsafe.Slice(keyLens, int(n))
		for i, key := range unsafe.Slice(keys, int(n)) {
			m.Keys = append(m.Keys, span(key, lens[i]))
		}
	}
	if err := look(m); err != nil || n == 0 {
		return err
	}
	total := m.Size() + 1
	block := C.loamgo_alloc(C.size_t(total))
	if block == nil {
		return lsm.ErrNoMemory
	}
	*memory = block
	bytes := unsafe.Slice((*byte)(block), total)
	lengths := unsafe.Slice(valueLens, int(n))
	// Stored as integers: the caller's array may hold anything before.
	places := unsafe.Slice((*uintptr)(unsafe.Pointer(values)), int(n))
	used := 0
	for i := range places {
		v, found := m.Value(i)
		places[i], lengths[i] = 0, C.size_t(len(v))
		if found {
			places[i] = uintptr(block) + uintptr(used)
			used += copy(bytes[used:], v)
			bytes[used] = 0
			used++
		}
	}
	return nil
}
