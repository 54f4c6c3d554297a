//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/stk"
	"github.com/loamdb/loam/lsm"
)

// iterator is the engine's side of an iterator. The shim sees to it that one
// thread at a time is in here.
type iterator struct {
	*lsm.Iterator
	db      *database
	pending []byte // a block that did not fit into the shim's buffer
	count   int    // entries in it
}

//export loamgo_iter_create
func loamgo_iter_create(db C.uint64_t, o *C.loamgo_iter_options, out *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		d, s, err := open(db, o.snapshot)
		if err != nil {
			return err
		}
		if d.uses.Retain() == nil {
			return lsm.ErrClosed
		}
		with := iterOptions(o)
		with.Snapshot = s
		return publishIter(d, d.Iter(with), out)
	})
}

func iterOptions(o *C.loamgo_iter_options) *lsm.IterOptions {
	return &lsm.IterOptions{
		Lower:       bound(o.lower, o.lower_len),
		Upper:       bound(o.upper, o.upper_len),
		Prefix:      bound(o.prefix, o.prefix_len),
		KeysOnly:    o.flags&C.LOAM_KEYS_ONLY != 0,
		NoFillCache: o.flags&C.LOAM_NO_FILL != 0,
	}
}

// publishIter makes a handle for an iterator, or closes it. The caller's user of d.uses is
// the iterator's from then on.
func publishIter(d *database, opened *lsm.Iterator, out *C.uint64_t) error {
	it := &iterator{db: d, Iterator: opened}
	err := it.Err()
	if err == nil {
		err = publish(kindIterator, it, out)
	}
	if err != nil {
		_ = it.Close() // the caller learns the first error
		d.uses.Release()
	}
	return err
}

// loamgo_iter_fetch moves and fills the buffer with a block of entries. A block
// that does not fit waits for LOAMGO_TAKE.
//
//export loamgo_iter_fetch
func loamgo_iter_fetch(h C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t, entries,
	bytes C.size_t, buf unsafe.Pointer, capacity C.size_t, out *C.loamgo_block,
	message **C.char) (s status) {
	stk.Call(func() { s = fetch(h, op, key, keyLen, entries, bytes, buf, capacity, out, message) })
	return s
}

func fetch(h C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t, entries, bytes C.size_t,
	buf unsafe.Pointer, capacity C.size_t, out *C.loamgo_block, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	it, err := get[*iterator](h, kindIterator)
	if err != nil {
		return fail(err, message)
	}
	dst := unsafe.Slice((*byte)(buf), int(capacity))[:0]
	block, n := it.pending, it.count
	if op != C.LOAMGO_TAKE {
		it.pending, it.count = nil, 0
		if !it.move(op, span(key, keyLen)) {
			if err := it.Err(); err != nil {
				return fail(err, message)
			}
			return C.LOAM_END
		}
		if backward(op) {
			block, n = it.PrevBlock(dst, int(entries), int(bytes))
		} else {
			block, n = it.NextBlock(dst, int(entries), int(bytes))
		}
	}
	if n == 0 {
		if err := it.Err(); err != nil {
			return fail(err, message)
		}
		return fail(fmt.Errorf("internal error: no block to take"), message)
	}
	out.len, out.count, out.more = C.size_t(len(block)), C.size_t(n), 0
	if it.Valid() || it.Err() != nil {
		out.more = 1 // the next fetch gets the entries or the error
	}
	if len(block) > int(capacity) {
		it.pending, it.count = block, n
		return C.LOAM_BUFFER_TOO_SMALL
	}
	if unsafe.SliceData(block) != unsafe.SliceData(dst) {
		copy(dst[:len(block)], block)
	}
	it.pending, it.count = nil, 0
	return C.LOAM_OK
}

// move goes to where the block begins.
func (it *iterator) move(op C.int, key []byte) bool {
	switch op {
	case C.LOAMGO_FIRST:
		return it.First()
	case C.LOAMGO_LAST:
		return it.Last()
	case C.LOAMGO_SEEK_GE:
		return it.SeekGE(key)
	case C.LOAMGO_SEEK_LT:
		return it.SeekLT(key)
	case C.LOAMGO_AFTER:
		// key is an entry of this iterator, so SeekGE finds it.
		return it.SeekGE(key) && it.Next()
	}
	return it.Valid()
}

func backward(op C.int) bool {
	return op == C.LOAMGO_LAST || op == C.LOAMGO_SEEK_LT || op == C.LOAMGO_BACKWARD
}

//export loamgo_iter_set_bounds
func loamgo_iter_set_bounds(h C.uint64_t, lower unsafe.Pointer, lowerLen C.size_t,
	upper unsafe.Pointer, upperLen C.size_t, message **C.char) status {
	return with(message, h, kindIterator, func(it *iterator) error {
		it.pending, it.count = nil, 0
		it.SetBounds(bound(lower, lowerLen), bound(upper, upperLen))
		return nil
	})
}
