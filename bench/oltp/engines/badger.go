package engines

import (
	"bytes"
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/loamdb/loam/bench/oltp/rows"
)

func openBadger(dir string) (rows.Table, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).
		WithSyncWrites(true).WithBlockCacheSize(cacheBytes))
	if err != nil {
		return nil, err
	}
	return rows.OnKeys(&badgerStore{db}), nil
}

type badgerStore struct{ db *badger.DB }

func (b *badgerStore) Close() error { return b.db.Close() }

func (b *badgerStore) Get(ctx context.Context, _ int, key []byte) (value []byte, err error) {
	err = b.db.View(func(tx *badger.Txn) error {
		value, err = badgerTxn{tx}.Get(ctx, key)
		return err
	})
	return value, err
}

func (b *badgerStore) View(_ context.Context, _ int, f func(rows.Reader) error) error {
	return b.db.View(func(tx *badger.Txn) error { return f(badgerTxn{tx}) })
}

func (b *badgerStore) Update(ctx context.Context, _ int, f func(rows.Txn) error) error {
	for {
		err := b.db.Update(func(tx *badger.Txn) error { return f(badgerTxn{tx}) })
		if !errors.Is(err, badger.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}

type badgerTxn struct{ tx *badger.Txn }

func (t badgerTxn) Get(_ context.Context, key []byte) ([]byte, error) {
	item, err := t.tx.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, rows.ErrMissing
	} else if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func (t badgerTxn) Put(key, value []byte) error { return t.tx.Set(key, value) }
func (t badgerTxn) Delete(key []byte) error     { return t.tx.Delete(key) }

func (t badgerTxn) Scan(_ context.Context, lower, upper []byte,
	f func(key, value []byte) error) error {
	it := t.tx.NewIterator(badger.DefaultIteratorOptions)
	defer it.Close()
	for it.Seek(lower); it.Valid() && bytes.Compare(it.Item().Key(), upper) < 0; it.Next() {
		if err := it.Item().Value(func(v []byte) error {
			return f(it.Item().Key(), v)
		}); err != nil {
			return err
		}
	}
	return nil
}
