package lsm

import (
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/tree"
)

// PinnedValue receives the value of a GetPinned, and pins it: the block of the cache or the
// memtable that it lies in, and the read state with its memtables and tables, as an iterator does.
// Nothing of that is freed before Release, not by Close either: release soon what is not used. One
// that is used again saves allocations. It is for one goroutine at a time and not copied; its zero
// value is ready.
type PinnedValue struct {
	_ [0]sync.Mutex // go vet complains about copies
	p tree.Pinned
}

// Bytes is the value, until Release or the next GetPinned with v; it must not be changed. It is nil
// without a value, and not nil for an empty one.
func (v *PinnedValue) Bytes() []byte { return v.p.Value() }

// Copied reports whether the value was copied, as Get does: its block was not in the cache, it is
// made of operands, or the transaction wrote it.
func (v *PinnedValue) Copied() bool { return v.p.Copied() }

// Release gives up the value: its bytes must not be touched after it. Without one it does nothing,
// so that it may be deferred.
func (v *PinnedValue) Release() { v.p.Release() }

// GetPinned is Get without a copy: v gets the value where it lies in memory, until v.Release. What
// v had before, in which key may lie, is released first, and after an error v has no value. It pays
// from values of some KiB on; a value whose block is not in the cache is copied, and the block is
// put there. v outlives a write of the key, the snapshot, DropKeyspace and Close. It fails as Get
// does.
func (r *reader) GetPinned(key []byte, v *PinnedValue) error {
	if v == nil {
		return base.Invalidf("GetPinned needs a PinnedValue")
	}
	return r.of.Reads().GetPinned(key, r.at, &v.p)
}

// GetPinned is DB.GetPinned in the transaction, which v outlives; its own writes are copied.
func (tx *Txn) GetPinned(key []byte, v *PinnedValue) error {
	if v == nil {
		return base.Invalidf("GetPinned needs a PinnedValue")
	}
	return tx.txn.GetPinned(tx.space, key, &v.p)
}
