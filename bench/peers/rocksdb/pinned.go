//go:build cgo && rocksdb

package rocksdb

// #cgo noescape kv_pin
// #cgo nocallback kv_pin
// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/loamdb/loam/internal/workload/store"
)

// pinnable is a value that RocksDB pins.
type pinnable struct {
	s *C.rocksdb_pinnableslice_t
	v []byte
}

func (p *pinnable) Bytes() []byte { return p.v }
func (p *pinnable) Close()        { p.Release() }

func (p *pinnable) Release() {
	if p.s != nil {
		C.rocksdb_pinnableslice_destroy(p.s)
	}
	p.s, p.v = nil, nil
}

func (d *database) NewPinned() store.Pinned { return new(pinnable) }

// GetPinned is one call of C, and Release another one.
func (d *database) GetPinned(key []byte, v store.Pinned) (bool, error) {
	p, ok := v.(*pinnable)
	if !ok {
		return false, errors.New("value of another store")
	}
	p.Release()
	k, kn := bytesOf(key)
	g := C.kv_pin(d.db, d.ro, k, kn)
	if g.err != nil {
		return false, failure(g.err)
	}
	if g.s == nil {
		return false, nil
	}
	p.s, p.v = g.s, unsafe.Slice((*byte)(unsafe.Pointer(g.v)), int(g.n))
	return true, nil
}
