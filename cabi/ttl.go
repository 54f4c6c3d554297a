//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/loamdb/loam/lsm"
)

// lifetime is so many seconds.
func lifetime(seconds C.uint64_t) (time.Duration, error) {
	if uint64(seconds) > math.MaxInt64/uint64(time.Second) {
		return 0, fmt.Errorf("%w: a time to live of %d s is beyond the clock: the most is 292 "+
			"years", lsm.ErrInvalidArgument, uint64(seconds))
	}
	return time.Duration(seconds) * time.Second, nil
}

// loamgo_put_ttl puts a value that expires, and stores the sequence number unless that is NULL.
//
//export loamgo_put_ttl
func loamgo_put_ttl(db C.uint64_t, key unsafe.Pointer, keyLen C.size_t, value unsafe.Pointer,
	valueLen C.size_t, seconds, flags C.uint64_t, sequence *C.uint64_t, message **C.char) status {
	return with(message, db, kindDB, func(d *database) error {
		ttl, err := lifetime(seconds)
		if err != nil {
			return err
		}
		if sequence == nil {
			return d.PutTTL(span(key, keyLen), span(value, valueLen), ttl, mode(flags))
		}
		var b lsm.Batch
		b.PutTTL(span(key, keyLen), span(value, valueLen), ttl)
		if err := d.Write(&b, mode(flags)); err != nil {
			return err
		}
		*sequence = C.uint64_t(binary.LittleEndian.Uint64(b.Bytes()))
		return nil
	})
}

//export loamgo_txn_put_ttl
func loamgo_txn_put_ttl(h, keyspace C.uint64_t, key unsafe.Pointer, keyLen C.size_t,
	value unsafe.Pointer, valueLen C.size_t, seconds C.uint64_t, message **C.char) status {
	return withTxn(message, h, keyspace, func(_ *transaction, tx *lsm.Txn) error {
		ttl, err := lifetime(seconds)
		if err != nil {
			return err
		}
		return tx.PutTTL(span(key, keyLen), span(value, valueLen), ttl)
	})
}

//export loamgo_ttl
func loamgo_ttl(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, milliseconds *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		d, s, err := open(db, snap)
		if err != nil {
			return err
		}
		var left time.Duration
		var expires bool
		if s != nil {
			left, expires, err = s.In(d.Keyspace).TTL(span(key, keyLen))
		} else {
			left, expires, err = d.TTL(span(key, keyLen))
		}
		*milliseconds = C.LOAM_TTL_NEVER
		if expires {
			*milliseconds = C.uint64_t(left / time.Millisecond)
		}
		return err
	})
}
