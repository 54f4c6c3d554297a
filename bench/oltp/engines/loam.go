package engines

import (
	"context"
	"errors"

	"github.com/loamdb/loam/bench/oltp/rows"
	"github.com/loamdb/loam/lsm"
)

func openLoam(dir string) (rows.Table, error) {
	db, err := lsm.Open(dir, &lsm.Options{CacheSize: cacheBytes})
	if err != nil {
		return nil, err
	}
	return rows.OnKeys(&loam{db}), nil
}

type loam struct{ db *lsm.DB }

func (l *loam) Close() error { return l.db.Close() }

func (l *loam) Get(_ context.Context, _ int, key []byte) ([]byte, error) {
	return found(l.db.Get(key, nil))
}

// found makes of Loam's error that of package rows.
func found(v []byte, err error) ([]byte, error) {
	if errors.Is(err, lsm.ErrNotFound) {
		return nil, rows.ErrMissing
	}
	return v, err
}

func (l *loam) View(_ context.Context, _ int, f func(rows.Reader) error) error {
	s := l.db.Snapshot()
	defer s.Close()
	return f(loamReader{s})
}

type loamReader struct{ s *lsm.Snapshot }

func (r loamReader) Get(_ context.Context, key []byte) ([]byte, error) {
	return found(r.s.Get(key, nil))
}

func (r loamReader) Scan(_ context.Context, lower, upper []byte,
	f func(key, value []byte) error) error {
	it := r.s.Iter(&lsm.IterOptions{Lower: lower, Upper: upper})
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

var durable = &lsm.TxnOptions{Isolation: lsm.Serializable, Mode: lsm.Sync}

func (l *loam) Update(ctx context.Context, _ int, f func(rows.Txn) error) error {
	return l.db.UpdateWith(ctx, durable, func(tx *lsm.Txn) error { return f(loamTxn{tx}) })
}

type loamTxn struct{ *lsm.Txn }

func (t loamTxn) Get(_ context.Context, key []byte) ([]byte, error) {
	return found(t.Txn.Get(key, nil))
}
