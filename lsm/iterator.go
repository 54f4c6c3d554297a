package lsm

import (
	"iter"

	"github.com/loamdb/loam/internal/tree"
)

// IterOptions configures an iterator. A nil *IterOptions and zero fields mean: all keys of the
// present state, with values, filling the cache.
type IterOptions struct {
	// Lower is the first key to return; nil: no bound. It is copied.
	Lower []byte
	// Upper is the first key not to return; nil: no bound. It is copied.
	Upper []byte
	// Prefix restricts the iterator to keys that begin with it, within the bounds. It is copied;
	// nil and the empty prefix: no restriction. It needs an order in which the keys that begin with
	// a prefix follow it, as they do by BytewiseComparer: with the other built-in comparers, and
	// with those of descending order, Err has ErrInvalidArgument.
	Prefix []byte
	// KeysOnly returns keys without values: Value is nil, and NextBlock's values are
	// empty. The default is false.
	KeysOnly bool
	// NoFillCache leaves the block cache as it is: for scans whose data will
	// not be read again. The default is false.
	NoFillCache bool
	// Snapshot is the state to read, of the same database; nil: the present.
	Snapshot *Snapshot
}

// Iterator walks over the keys of one state of the database in order, both ways. It is used by one
// goroutine at a time. It holds memory and table files until Close. Make one with DB.Iter, or loop
// with DB.All.
//
// Moves report whether the iterator is at an entry; when one reports false, Err tells the end from
// a failure. After a failure it stays invalid until the next First, Last or Seek tries again.
type Iterator struct{ tree tree.Iterator }

// Iter opens an iterator over one state: that of the snapshot, or else the present one. Later
// writes are not seen. It is at no entry yet: call First, Last or a Seek, and Close when done. A
// nil o means all keys. Iter itself does not fail: Err has ErrClosed, or ErrInvalidArgument for a
// snapshot of another database, or for a prefix under an order that IterOptions.Prefix excludes.
func (r *reader) Iter(o *IterOptions) *Iterator {
	if o == nil {
		o = &IterOptions{}
	}
	in := tree.IterOptions{Lower: o.Lower, Upper: o.Upper, Prefix: o.Prefix, KeysOnly: o.KeysOnly,
		NoFillCache: o.NoFillCache, Snapshot: r.at}
	if r.at == nil && o.Snapshot != nil {
		in.Snapshot = o.Snapshot.at
		if in.Snapshot == nil { // not one of a database
			in.Snapshot = &o.Snapshot.own
		}
	}
	it := &Iterator{}
	r.of.Reads().Init(&it.tree, &in)
	return it
}

// First moves to the first key.
func (it *Iterator) First() bool { return it.tree.First() }

// Last moves to the last key.
func (it *Iterator) Last() bool { return it.tree.Last() }

// SeekGE moves to the first key at or after key, which may be what Key or Value returned.
func (it *Iterator) SeekGE(key []byte) bool { return it.tree.SeekGE(key) }

// SeekLT moves to the last key before key, which may be what Key or Value returned.
func (it *Iterator) SeekLT(key []byte) bool { return it.tree.SeekLT(key) }

// Next moves to the following key. On an iterator that is at no entry it reports false.
func (it *Iterator) Next() bool { return it.tree.Next() }

// Prev moves to the preceding key. On an iterator that is at no entry it reports false.
func (it *Iterator) Prev() bool { return it.tree.Prev() }

// Valid reports whether the iterator is at an entry.
func (it *Iterator) Valid() bool { return it.tree.Valid() }

// Key returns the key, which is valid and unchanged until the next move or
// Close. nil when the iterator is at no entry.
func (it *Iterator) Key() []byte { return it.tree.Key() }

// Value returns the value, which is valid and unchanged until the next move or
// Close. nil when the iterator is at no entry, or was opened with KeysOnly.
func (it *Iterator) Value() []byte { return it.tree.Value() }

// Err returns what made the last move fail, or nil at a plain end: ErrCorruption, ErrMergeFailed,
// ErrNoMergeOperator, ErrTooManyFiles, ErrNoMemory, an error of the file system or of Iter, or
// ErrClosed once the iterator or its database is closed. Close does not change it.
func (it *Iterator) Err() error { return it.tree.Err() }

// SetBounds copies new Lower and Upper, and keeps Prefix; the iterator is then at no entry.
func (it *Iterator) SetBounds(lower, upper []byte) { it.tree.SetBounds(lower, upper) }

// Close releases what the iterator holds and returns Err: nil when the last move
// ended well. Closing twice is harmless.
func (it *Iterator) Close() error { return it.tree.Close() }

// NextBlock appends entries to dst, beginning with the current one, and moves behind them: at most
// maxEntries, and no further one once maxBytes have been appended; 0 or less is no limit of either.
// Each entry is its key's length and its value's length, as 32-bit little-endian integers, then key
// and value. n is how many were appended. Where neither limit was reached the iterator is at no
// entry, and Err tells the end from a failure.
func (it *Iterator) NextBlock(dst []byte, maxEntries, maxBytes int) (block []byte, n int) {
	return it.tree.NextBlock(dst, maxEntries, maxBytes)
}

// PrevBlock is NextBlock in descending order.
func (it *Iterator) PrevBlock(dst []byte, maxEntries, maxBytes int) (block []byte, n int) {
	return it.tree.PrevBlock(dst, maxEntries, maxBytes)
}

// All returns the entries from lower up to, not including, upper, for range loops; a nil bound is
// none. Key and value are valid until the next step. *err receives the failure that ended the loop
// early, or nil: look at it after the loop. A nil err panics at the call: the loop could not report
// failures.
func (r *reader) All(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return walk(r, IterOptions{Lower: lower, Upper: upper}, false, err)
}

// Backward is All in descending order, from the last key before upper down to lower.
func (r *reader) Backward(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return walk(r, IterOptions{Lower: lower, Upper: upper}, true, err)
}

// Prefix is All over the keys that begin with prefix. It needs an order as IterOptions.Prefix does.
func (r *reader) Prefix(prefix []byte, err *error) iter.Seq2[[]byte, []byte] {
	return walk(r, IterOptions{Prefix: prefix}, false, err)
}

// walk is a scan of r, a reader or a transaction.
func walk(r interface{ Iter(*IterOptions) *Iterator }, o IterOptions, descending bool,
	err *error) iter.Seq2[[]byte, []byte] {
	if err == nil {
		panic("loam: All, Backward and Prefix need a place for the error of the scan: pass &err")
	}
	return func(yield func(k, v []byte) bool) {
		it := r.Iter(&o)
		defer func() { *err = it.Close() }() // also when the loop's body panics
		start, move := (*Iterator).First, (*Iterator).Next
		if descending {
			start, move = (*Iterator).Last, (*Iterator).Prev
		}
		for ok := start(it); ok && yield(it.Key(), it.Value()); ok = move(it) {
		}
	}
}
