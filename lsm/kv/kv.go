// Package kv is what a database in one process and a replicated one have in common: the interface
// Store, for programs that begin with the one and may move to the other.
//
//	db, err := lsm.Open("data", nil)
//	...
//	store := kv.Of(db)
//
// A Store orders keys bytewise. What one of its engines cannot do is absent: merges, values that
// expire, deletions of ranges and keyspaces are methods of lsm.DB.
//
// # Promises
//
// A write that returned nil is on stable storage, and reads that begin afterwards see it. The
// operations of a batch take effect together. Slices that a call is given are not kept. Slices that
// a call returns belong to the caller, those of an Iterator until its next move.
//
// Calls fail with lsm.ErrClosed after Close, and with the context's error where the context is done
// when they begin; each engine says what a failed call leaves behind. internal/testkit/conform
// tests all of this on every engine.
package kv

import (
	"context"
	"errors"

	"github.com/loamdb/loam/lsm"
)

// Reader is a state to read from. All methods are safe for concurrent use.
type Reader interface {
	// Get returns the value of key, which is not nil. A missing key is lsm.ErrNotFound.
	Get(ctx context.Context, key []byte) ([]byte, error)
	// Has reports whether key has a value.
	Has(ctx context.Context, key []byte) (bool, error)
	// MultiGet looks up many keys in one state. values[i] is that of keys[i], nil if it is missing.
	MultiGet(ctx context.Context, keys [][]byte) (values [][]byte, err error)
	// Iter opens an iterator over one state, to be closed by the caller. A nil o means all keys.
	Iter(ctx context.Context, o *IterOptions) (Iterator, error)
}

// Store is a database.
type Store interface {
	Reader
	// Snapshot fixes the present state, to be closed by the caller.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Write makes all operations of a batch take effect together. The batch may be reused
	// afterwards.
	Write(ctx context.Context, b *Batch) error
	// Close ends the use of the database.
	Close() error
}

// Snapshot is a fixed state. Its reads fail with lsm.ErrClosed after Close.
type Snapshot interface {
	Reader
	// Close releases the state. Iterators made from it go on working. Closing twice is harmless.
	Close() error
}

// IterOptions bounds an iterator.
type IterOptions struct {
	// Lower is the first key to return; nil: no bound. It is copied.
	Lower []byte
	// Upper is the first key not to return; nil: no bound. It is copied.
	Upper []byte
	// KeysOnly returns keys without values.
	KeysOnly bool
}

// Iterator walks over the keys of one state in order, both ways. It is used by one goroutine at a
// time. Moves report whether the iterator is at an entry; when one reports false, Err tells the end
// from a failure.
type Iterator interface {
	First() bool
	Last() bool
	// SeekGE moves to the first key at or after key.
	SeekGE(key []byte) bool
	// SeekLT moves to the last key before key.
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	// Key returns the key, which is valid until the next move or Close.
	Key() []byte
	// Value returns the value, which is valid until the next move or Close; nil with KeysOnly.
	Value() []byte
	Err() error
	// Close releases what the iterator holds and returns Err.
	Close() error
}

// Batch collects operations that take effect together. Later operations on the same key win. A
// batch copies what it is given. It is used by one goroutine at a time. Make one with NewBatch.
type Batch struct{ ops *lsm.Batch }

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{lsm.NewBatch()} }

// Put sets key to value.
func (b *Batch) Put(key, value []byte) { b.ops.Put(key, value) }

// Delete removes key, whether it exists or not.
func (b *Batch) Delete(key []byte) { b.ops.Delete(key) }

// Clear empties the batch and keeps its memory.
func (b *Batch) Clear() { b.ops.Clear() }

// Count is the number of operations.
func (b *Batch) Count() int { return b.ops.Count() }

// Bytes is the batch in the wire form of lsm.Batch.Bytes, which lsm.BatchFromBytes takes. The slice
// is valid until the next change of the batch.
func (b *Batch) Bytes() []byte { return b.ops.Bytes() }

// Each calls put or del for every operation in order, until one of them returns an error, which
// Each returns. The slices are valid during the call, and must not be changed.
func (b *Batch) Each(put func(key, value []byte) error, del func(key []byte) error) error {
	return b.ops.Each(put, del)
}

// Of makes a database, or a keyspace with bytewise order, a Store. Write syncs. Close closes s.
func Of(s lsm.Store) Store { return store{reader{s}, s} }

// ReaderOf makes a Reader of what lsm reads from.
func ReaderOf(r lsm.Reader) Reader { return reader{r} }

type store struct {
	reader
	db lsm.Store
}

func (s store) Snapshot(ctx context.Context) (Snapshot, error) {
	// Has looks whether the database is closed, which lsm's Snapshot does not say.
	if _, err := s.Has(ctx, nil); err != nil {
		return nil, err
	}
	snap := s.db.Snapshot()
	return snapshot{reader{snap}, snap}, nil
}

func (s store) Write(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.Write(b.ops, lsm.Sync)
}

func (s store) Close() error { return s.db.Close() }

type snapshot struct {
	reader
	snap *lsm.Snapshot
}

func (s snapshot) Close() error { return s.snap.Close() }

type reader struct{ r lsm.Reader }

func (r reader) Get(ctx context.Context, key []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, err := r.r.Get(key, []byte{})
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (r reader) Has(ctx context.Context, key []byte) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return r.r.Has(key)
}

func (r reader) MultiGet(ctx context.Context, keys [][]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var found lsm.MultiResult
	if err := r.r.MultiGet(keys, &found); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i := range values {
		if v, ok := found.Value(i); ok {
			values[i] = append([]byte{}, v...)
		}
	}
	return values, nil
}

func (r reader) Iter(ctx context.Context, o *IterOptions) (Iterator, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &IterOptions{}
	}
	it := r.r.Iter(&lsm.IterOptions{Lower: o.Lower, Upper: o.Upper, KeysOnly: o.KeysOnly})
	if err := it.Err(); err != nil {
		return nil, errors.Join(err, ignoreSame(it.Close(), err))
	}
	return it, nil
}

// ignoreSame returns the error of a Close unless it is the one that is known.
func ignoreSame(closing, known error) error {
	if closing == nil || closing.Error() == known.Error() {
		return nil
	}
	return closing
}
