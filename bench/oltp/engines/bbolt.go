package engines

import (
	"bytes"
	"context"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/bench/oltp/rows"
	"go.etcd.io/bbolt"
)

var bucket = []byte("rows")

func openBolt(dir string) (rows.Table, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o666, nil)
	if err != nil {
		return nil, err
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	}); err != nil {
		return nil, err
	}
	return rows.OnKeys(&bolt{db}), nil
}

type bolt struct{ db *bbolt.DB }

func (b *bolt) Close() error { return b.db.Close() }

func (b *bolt) Get(ctx context.Context, _ int, key []byte) (value []byte, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		v, err := boltTxn{tx.Bucket(bucket)}.Get(ctx, key)
		value = bytes.Clone(v)
		return err
	})
	return value, err
}

func (b *bolt) View(_ context.Context, _ int, f func(rows.Reader) error) error {
	return b.db.View(func(tx *bbolt.Tx) error { return f(boltTxn{tx.Bucket(bucket)}) })
}

// Update is a transaction of its own for each call: DB.Batch, which shares one, waits for others.
func (b *bolt) Update(_ context.Context, _ int, f func(rows.Txn) error) error {
	return b.db.Update(func(tx *bbolt.Tx) error { return f(boltTxn{tx.Bucket(bucket)}) })
}

type boltTxn struct{ *bbolt.Bucket }

func (t boltTxn) Get(_ context.Context, key []byte) ([]byte, error) {
	if v := t.Bucket.Get(key); v != nil {
		return v, nil
	}
	return nil, rows.ErrMissing
}

func (t boltTxn) Scan(_ context.Context, lower, upper []byte,
	f func(key, value []byte) error) error {
	c := t.Cursor()
	for k, v := c.Seek(lower); k != nil && bytes.Compare(k, upper) < 0; k, v = c.Next() {
		if err := f(k, v); err != nil {
			return err
		}
	}
	return nil
}
