//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/loamdb/loam/lsm"
)

// multiGets are the buffers of multi_get.
var multiGets = sync.Pool{New: func() any { return new(multiGet) }}

type multiGet struct {
	keys   [][]byte
	result lsm.MultiResult

	apart bool // values are in buf and ends instead of result
	buf   []byte
	ends  []int // where each value ends in buf; negative: there is none
}

// each looks up the keys one by one, for the flags that MultiGet has not.
func (m *multiGet) each(d *database, s *lsm.Snapshot, flags C.uint64_t) error {
	if s == nil {
		s = d.Snapshot()
		defer s.Close()
	}
	m.apart, m.buf, m.ends = true, m.buf[:0], m.ends[:0]
	for _, key := range m.keys {
		v, err := lookup(d, s, key, m.buf, flags)
		switch {
		case errors.Is(err, lsm.ErrNotFound):
			m.ends = append(m.ends, -1-len(m.buf))
			continue
		case err != nil:
			return err
		}
		m.buf = v
		m.ends = append(m.ends, len(v))
	}
	return nil
}

// value returns the value of key i; found is false when it has none.
func (m *multiGet) value(i int) (value []byte, found bool) {
	if !m.apart {
		return m.result.Value(i)
	}
	start, end := 0, m.ends[i]
	if end < 0 {
		return nil, false
	}
	if i > 0 {
		start = m.ends[i-1]
		if start < 0 {
			start = -1 - start
		}
	}
	return m.buf[start:end:end], true
}

// loamgo_multi_get looks up n keys and lays the values into one malloc'ed
// block, each followed by a zero byte.
//
//export loamgo_multi_get
func loamgo_multi_get(db, snap C.uint64_t, n C.size_t, keys *unsafe.Pointer, keyLens *C.size_t, flags C.uint64_t, values *unsafe.Pointer, valueLens *C.size_t, memory *unsafe.Pointer, message **C.char) status {
	return run(message, func() error {
		d, s, err := open(db, snap)
		if err != nil || n == 0 {
			return err
		}
		return multiGetBy(n, keys, keyLens, values, valueLens, memory, func(m *multiGet) error {
			switch {
			case flags != 0:
				return m.each(d, s, flags)
			case s != nil:
				return s.MultiGet(m.keys, &m.result)
			}
			return d.MultiGet(m.keys, &m.result)
		})
	})
}

//export loamgo_txn_multi_get
func loamgo_txn_multi_get(h, keyspace C.uint64_t, n C.size_t, keys *unsafe.Pointer, keyLens *C.size_t, values *unsafe.Pointer, valueLens *C.size_t, memory *unsafe.Pointer, message **C.char) status {
	return run(message, func() error {
		_, tx, err := txnIn(h, keyspace)
		if err != nil {
			return err
		}
		return multiGetBy(n, keys, keyLens, values, valueLens, memory, func(m *multiGet) error { return tx.MultiGet(m.keys, &m.result) })
	})
}

// multiGetBy hands the keys to look and what it finds to C.
func multiGetBy(n C.size_t, keys *unsafe.Pointer, keyLens *C.size_t, values *unsafe.Pointer, valueLens *C.size_t, memory *unsafe.Pointer, look func(m *multiGet) error) error {
	m := multiGets.Get().(*multiGet)
	defer func() {
		clear(m.keys) // C's memory is not to be kept
		multiGets.Put(m)
	}()
	m.keys, m.apart = m.keys[:0], false
	if n > 0 {
		lens := unsafe.Slice(keyLens, int(n))
		for i, key := range unsafe.Slice(keys, int(n)) {
			m.keys = append(m.keys, span(key, lens[i]))
		}
	}
	if err := look(m); err != nil || n == 0 {
		return err
	}
	total := 1
	for i := range int(n) {
		v, _ := m.value(i)
		total += len(v) + 1
	}
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
		v, found := m.value(i)
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
