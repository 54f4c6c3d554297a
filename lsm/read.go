package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree"
)

// Get appends the value of key to dst and returns the result; with room in dst it allocates
// nothing. A missing key is ErrNotFound, and dst as it was. Neither key nor dst is retained; key
// must not lie in the room behind dst.
//
// Reads fail with ErrClosed after Close, with ErrCorruption where the bytes on disk are damaged,
// with ErrTooManyFiles or ErrNoMemory if the process has no descriptor or memory left, with
// ErrMergeFailed or ErrNoMergeOperator where operands of the key cannot be applied, with
// ErrNoKeyspace after DropKeyspace, and with the file system's error where a file cannot be read. A
// panic of the comparer becomes the error and makes the database read-only.
func (r *reader) Get(key, dst []byte) ([]byte, error) {
	return r.of.Reads().Get(key, dst, r.at, 0)
}

// TryGet is Get without I/O: when memtables and cached blocks do not hold the
// answer it fails with ErrWouldBlock.
func (r *reader) TryGet(key, dst []byte) ([]byte, error) {
	return r.of.Reads().Get(key, dst, r.at, sstable.MemoryOnly)
}

// GetNoFill is Get that leaves the block cache as it is, for reads that will not come again.
func (r *reader) GetNoFill(key, dst []byte) ([]byte, error) {
	return r.of.Reads().Get(key, dst, r.at, sstable.NoFill)
}

// Has reports whether key has a value. It fails as Get does, except that a missing key is no error.
func (r *reader) Has(key []byte) (bool, error) { return r.of.Reads().Has(key, r.at) }

// MultiResult receives the values of a MultiGet. One that is used again saves allocations. It is
// used by one goroutine at a time; its zero value is ready.
type MultiResult struct{ r tree.MultiResult }

// Len is the number of keys asked for.
func (r *MultiResult) Len() int { return r.r.Len() }

// Value returns the value of key i; found is false when it has none, and when
// there is no key i. The slice is valid until the next use of r.
func (r *MultiResult) Value(i int) (value []byte, found bool) { return r.r.Value(i) }

// MultiGet looks up many keys in one state of the database: result.Value(i) is the value of
// keys[i]. It is faster than as many calls of Get, because the lookups overlap. It fails as Get
// does, except that a missing key is no error; after an error the results are undefined. Keys are
// not retained, and may lie in values that result has from before.
func (r *reader) MultiGet(keys [][]byte, result *MultiResult) error {
	if result == nil {
		return base.Invalidf("MultiGet needs a MultiResult")
	}
	return r.of.Reads().MultiGet(keys, r.at, &result.r)
}
