//go:build cgo && lmdb

package lmdb

// #cgo noescape kv_pin
// #cgo nocallback kv_pin
// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/loamdb/loam/internal/workload/store"
)

// mappedValue is a value in the map, and the read transaction that keeps it there.
type mappedValue struct {
	txn  *C.MDB_txn
	held bool // txn reads
	v    []byte
}

func (p *mappedValue) Bytes() []byte { return p.v }

func (p *mappedValue) Release() {
	if p.held {
		C.kv_unpin(p.txn)
	}
	p.held, p.v = false, nil
}

func (p *mappedValue) Close() {
	if p.txn != nil {
		C.mdb_txn_abort(p.txn)
	}
	p.txn, p.held, p.v = nil, false, nil
}

func (d *database) NewPinned() store.Pinned { return new(mappedValue) }

// GetPinned renews the transaction of v.
func (d *database) GetPinned(key []byte, v store.Pinned) (bool, error) {
	p, ok := v.(*mappedValue)
	if !ok {
		return false, errors.New("value of another store")
	}
	p.Release()
	k, kn := bytesOf(key)
	txn := p.txn
	g := C.kv_pin(d.env, &txn, k, kn)
	p.txn = txn
	switch {
	case g.rc == C.MDB_NOTFOUND:
		return false, nil
	case g.rc != 0:
		return false, failure(g.rc)
	}
	p.held, p.v = true, unsafe.Slice((*byte)(unsafe.Pointer(g.v)), int(g.n))
	return true, nil
}
