//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"math"
	"time"
	"unsafe"

	"github.com/loamdb/loam/lsm"
)

// transaction is what a kindTxn handle stands for. Its user of db.uses is the handle.
type transaction struct {
	*lsm.Txn
	db *database
}

// longestMS is the most milliseconds that a time.Duration holds.
const longestMS = math.MaxInt64 / int64(time.Millisecond)

// close ends a transaction whose handle is gone.
func (t *transaction) close() error {
	err := t.Rollback()
	t.db.uses.Release()
	return err
}

//export loamgo_txn_begin
func loamgo_txn_begin(db C.uint64_t, flags C.uint64_t, timeout C.int64_t, name *C.char,
	out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := held(db)
		if err != nil {
			return err
		}
		o := lsm.TxnOptions{
			Lock: flags&C.LOAM_TXN_LOCK != 0, ReadOnly: flags&C.LOAM_TXN_READ_ONLY != 0,
			LockTimeout: time.Duration(min(max(int64(timeout), -1), longestMS)) * time.Millisecond,
		}
		if flags&C.LOAM_TXN_SERIALIZABLE != 0 {
			o.Isolation = lsm.Serializable
		}
		if name != nil {
			o.Name = C.GoString(name)
		}
		t := &transaction{d.db.Begin(&o), d}
		return publishOr(kindTxn, t, out, t.close)
	})
}

// withTxn is run of what needs the transaction of a handle in a keyspace; 0 is the one that it was
// begun in.
func withTxn(message **C.char, h, keyspace C.uint64_t,
	f func(t *transaction, tx *lsm.Txn) error) status {
	return with(message, h, kindTxn, func(t *transaction) (err error) {
		k := t.db
		if keyspace != 0 {
			if k, err = get[*database](keyspace, kindDB); err != nil {
				return err
			}
		}
		return f(t, t.In(k.Keyspace))
	})
}

// loamgo_txn_get looks a key up, for update or not; the value is malloc'ed.
//
//export loamgo_txn_get
func loamgo_txn_get(h, keyspace C.uint64_t, update C.int, key unsafe.Pointer, keyLen C.size_t,
	value *unsafe.Pointer, length *C.size_t, message **C.char) status {
	return withTxn(message, h, keyspace, func(_ *transaction, tx *lsm.Txn) error {
		read := tx.Get
		if update != 0 {
			read = tx.GetForUpdate
		}
		v, err := read(span(key, keyLen), nil)
		if err != nil {
			return err
		}
		*length = C.size_t(len(v))
		return giveBytes(v, value)
	})
}

//export loamgo_txn_write
func loamgo_txn_write(h, keyspace C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t,
	value unsafe.Pointer, valueLen C.size_t, message **C.char) status {
	return withTxn(message, h, keyspace, func(_ *transaction, tx *lsm.Txn) error {
		switch op {
		case C.LOAM_OP_PUT:
			return tx.Put(span(key, keyLen), span(value, valueLen))
		case C.LOAM_OP_MERGE:
			return tx.Merge(span(key, keyLen), span(value, valueLen))
		case C.LOAM_OP_DELETE_RANGE:
			return tx.DeleteRange(span(key, keyLen), span(value, valueLen))
		}
		return tx.Delete(span(key, keyLen))
	})
}

//export loamgo_txn_has
func loamgo_txn_has(h, keyspace C.uint64_t, key unsafe.Pointer, keyLen C.size_t,
	message **C.char) status {
	return withTxn(message, h, keyspace, func(_ *transaction, tx *lsm.Txn) error {
		has, err := tx.Has(span(key, keyLen))
		if err == nil && !has {
			err = lsm.ErrNotFound
		}
		return err
	})
}

//export loamgo_txn_iter_create
func loamgo_txn_iter_create(h, keyspace C.uint64_t, o *C.loamgo_iter_options, out *C.uint64_t,
	message **C.char) status {
	return withTxn(message, h, keyspace, func(t *transaction, tx *lsm.Txn) error {
		if t.db.uses.Retain() == nil {
			return lsm.ErrClosed
		}
		return publishIter(t.db, tx.Iter(iterOptions(o)), out)
	})
}

//export loamgo_txn_savepoint
func loamgo_txn_savepoint(h C.uint64_t, out *C.uint64_t, message **C.char) status {
	return with(message, h, kindTxn, func(t *transaction) error {
		number := t.SavePoint().Number()
		if number == 0 {
			return lsm.ErrTxnDone
		}
		*out = C.uint64_t(number)
		return nil
	})
}

//export loamgo_txn_rollback_to
func loamgo_txn_rollback_to(h, savepoint C.uint64_t, message **C.char) status {
	return with(message, h, kindTxn, func(t *transaction) error {
		return t.RollbackTo(lsm.SavePointOf(uint64(savepoint)))
	})
}

//export loamgo_txn_commit
func loamgo_txn_commit(h C.uint64_t, flags C.uint64_t, message **C.char) status {
	return with(message, h, kindTxn, func(t *transaction) error {
		return t.Commit(mode(flags))
	})
}

//export loamgo_txn_rollback
func loamgo_txn_rollback(h C.uint64_t, message **C.char) status {
	return with(message, h, kindTxn, func(t *transaction) error {
		return t.Rollback()
	})
}

//export loamgo_compare_and_swap
func loamgo_compare_and_swap(db C.uint64_t, key unsafe.Pointer, keyLen C.size_t, old unsafe.Pointer,
	oldLen C.size_t, value unsafe.Pointer, valueLen C.size_t, flags C.uint64_t, swapped *C.int,
	message **C.char) status {
	return with(message, db, kindDB, func(d *database) error {
		done, err := d.CompareAndSwap(span(key, keyLen), bound(old, oldLen), bound(value, valueLen),
			mode(flags))
		if done {
			*swapped = 1
		}
		return err
	})
}
