package rows

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// Reader reads one state of a store.
type Reader interface {
	// Get returns the value of key; ErrMissing: there is none. It is valid until the next call.
	Get(ctx context.Context, key []byte) ([]byte, error)
	// Scan calls f with the keys from lower on, less than upper, in order. What f gets is valid
	// until it returns.
	Scan(ctx context.Context, lower, upper []byte, f func(key, value []byte) error) error
}

// Txn is a transaction that writes.
type Txn interface {
	Get(ctx context.Context, key []byte) ([]byte, error)
	Put(key, value []byte) error
	Delete(key []byte) error
}

// Store is an ordered key-value store.
type Store interface {
	// View calls f with one state.
	View(ctx context.Context, worker int, f func(Reader) error) error
	// Get is View with one Get, where the store can do this for less.
	Get(ctx context.Context, worker int, key []byte) ([]byte, error)
	// Update calls f with a serializable transaction, and commits it, durably, unless f fails.
	// After a conflict it calls f again.
	Update(ctx context.Context, worker int, f func(Txn) error) error
	Close() error
}

// OnKeys makes a table of a store, which its Close closes.
func OnKeys(s Store) Table { return &keys{store: s} }

type keys struct {
	store     Store
	conflicts atomic.Int64
}

func (t *keys) Conflicts() int64 { return t.conflicts.Load() }
func (t *keys) Close() error     { return t.store.Close() }

// update is Store.Update, with a count of the calls after the first.
func (t *keys) update(ctx context.Context, worker int, f func(Txn) error) error {
	runs := int64(-1)
	err := t.store.Update(ctx, worker, func(x Txn) error {
		runs++
		return f(x)
	})
	t.conflicts.Add(max(runs, 0))
	return err
}

func (t *keys) Load(ctx context.Context, rows []Row) error {
	return t.update(ctx, 0, func(x Txn) error {
		for i := range rows {
			if err := put(x, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func put(x Txn, r *Row) error {
	if err := x.Put(rowKey(r.ID), r.value()); err != nil {
		return err
	}
	return x.Put(indexKey(r.K, r.ID), nil)
}

func (t *keys) Point(ctx context.Context, worker int, id int64) (c []byte, err error) {
	v, err := t.store.Get(ctx, worker, rowKey(id))
	if err != nil {
		return nil, err
	}
	r, err := decode(id, v)
	return r.C, err
}

func (t *keys) Range(ctx context.Context, worker int, first, end int64) (n int, err error) {
	err = t.store.View(ctx, worker, func(r Reader) error {
		n = 0
		return r.Scan(ctx, rowKey(first), rowKey(end), func(key, value []byte) error {
			n++
			_, err := decode(idOf(key), value)
			return err
		})
	})
	return n, err
}

func idOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[len(key)-8:])) }

// change has f change a row, and reports whether there is one.
func (t *keys) change(ctx context.Context, worker int, id int64,
	f func(Txn, *Row) error) (found bool, err error) {
	err = t.update(ctx, worker, func(x Txn) error {
		v, err := x.Get(ctx, rowKey(id))
		if found = err == nil; errors.Is(err, ErrMissing) {
			return nil
		} else if err != nil {
			return err
		}
		r, err := decode(id, bytes.Clone(v))
		if err != nil {
			return err
		}
		return f(x, &r)
	})
	return found, err
}

func (t *keys) SetC(ctx context.Context, worker int, id int64, c []byte) (bool, error) {
	return t.change(ctx, worker, id, func(x Txn, r *Row) error {
		r.C = c
		return x.Put(rowKey(id), r.value())
	})
}

func (t *keys) AddK(ctx context.Context, worker int, id int64) (bool, error) {
	return t.change(ctx, worker, id, func(x Txn, r *Row) error {
		if err := x.Delete(indexKey(r.K, id)); err != nil {
			return err
		}
		r.K++
		return put(x, r)
	})
}

func (t *keys) Insert(ctx context.Context, worker int, r Row) error {
	return t.update(ctx, worker, func(x Txn) error { return put(x, &r) })
}

func (t *keys) Delete(ctx context.Context, worker int, id int64) (bool, error) {
	return t.change(ctx, worker, id, func(x Txn, r *Row) error {
		if err := x.Delete(rowKey(id)); err != nil {
			return err
		}
		return x.Delete(indexKey(r.K, id))
	})
}

func (t *keys) Check(ctx context.Context) (n int64, err error) {
	err = t.store.View(ctx, 0, func(r Reader) error {
		var rows, entries, sum int64 // sum is 0 if both have the same k and id
		mix := func(k, id int64) int64 { return k*0x5851F42D4C957F2D ^ id*0x14057B7EF767814F }
		if err := r.Scan(ctx, []byte{rowPrefix}, []byte{rowPrefix + 1},
			func(key, value []byte) error {
				row, err := decode(idOf(key), value)
				rows++
				sum += mix(row.K, row.ID)
				return err
			}); err != nil {
			return err
		}
		if err := r.Scan(ctx, []byte{indexPrefix}, []byte{indexPrefix + 1},
			func(key, _ []byte) error {
				entries++
				sum -= mix(int64(binary.BigEndian.Uint64(key[1:])), idOf(key))
				return nil
			}); err != nil {
			return err
		}
		if n = rows; rows != entries || sum != 0 {
			return fmt.Errorf("%d rows, and an index of %d others", rows, entries)
		}
		return nil
	})
	return n, err
}
