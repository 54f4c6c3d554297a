package tikv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	failures "github.com/tikv/client-go/v2/error"
	locks "github.com/tikv/client-go/v2/kv"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// Limits of what a cluster with default settings takes, and of what TiDB gives it.
const (
	MaxKey   = 4 << 10   // bytes of a key, without the prefix
	MaxEntry = 6 << 20   // bytes of a key and its value
	MaxBatch = 100 << 20 // bytes of the keys and values of a batch or transaction
)

// Put sets key to value. See the package for what the errors of changes mean.
func (db *DB) Put(ctx context.Context, key, value []byte) error {
	b := kv.NewBatch()
	b.Put(key, value)
	return db.Write(ctx, b)
}

// Delete removes key, whether it exists or not.
func (db *DB) Delete(ctx context.Context, key []byte) error {
	b := kv.NewBatch()
	b.Delete(key)
	return db.Write(ctx, b)
}

// Write makes all operations of a batch take effect together, in one optimistic transaction. Where
// others write the same keys it is tried again, up to Config.Timeout, and then fails with
// ErrConflict.
func (db *DB) Write(ctx context.Context, b *kv.Batch) error {
	if b == nil {
		return notApplied(invalid("Write needs a batch"))
	}
	return db.transact(ctx, func(t *Txn) error {
		return b.Each(
			func(key, value []byte) error { t.Put(key, value); return nil },
			func(key []byte) error { t.Delete(key); return nil })
	})
}

// Update calls f with a transaction and commits what it wrote if it returns nil. Nothing that f
// read was changed by others before the commit: else f is called again, with a newer state, up to
// Config.Timeout, and then Update fails with ErrConflict. An error of f is returned as it is.
func (db *DB) Update(ctx context.Context, f func(*Txn) error) error {
	return db.transact(ctx, f)
}

// Txn is a transaction of Update. It is used by one goroutine at a time, while f runs.
type Txn struct {
	db    *DB
	txn   *transaction.KVTxn
	read  map[string]struct{} // keys of the cluster
	bytes int
	err   error // the first one of a write
}

// Get returns the value of key; a missing key is lsm.ErrNotFound.
func (t *Txn) Get(ctx context.Context, key []byte) ([]byte, error) {
	k := t.db.key(key)
	v, err := t.txn.Get(ctx, k)
	if err = explain(err); err != nil && !errors.Is(err, lsm.ErrNotFound) {
		return nil, err
	}
	t.read[string(k)] = struct{}{}
	if err != nil {
		return nil, err
	}
	return value(key, v)
}

// Put sets key to value.
func (t *Txn) Put(key, value []byte) {
	if t.fits(len(key), len(value)) {
		t.err = t.txn.Set(t.db.key(key), stored(value))
	}
}

// Delete removes key.
func (t *Txn) Delete(key []byte) {
	if t.fits(len(key), 0) {
		t.err = t.txn.Delete(t.db.key(key))
	}
}

// fits counts the bytes of an operation, and reports whether all are within the limits.
func (t *Txn) fits(key, value int) bool {
	if t.err != nil {
		return false
	}
	t.bytes += key + value
	switch {
	case key > MaxKey:
		t.err = tooLarge("a key", key, MaxKey)
	case key+value > MaxEntry:
		t.err = tooLarge("an entry", key+value, MaxEntry)
	case t.bytes > MaxBatch:
		t.err = tooLarge("a transaction", t.bytes, MaxBatch)
	}
	return t.err == nil
}

func tooLarge(what string, n, limit int) error {
	return fmt.Errorf("tikv: %s of %d bytes, and at most %d go: %w", what, n, limit, ErrTooLarge)
}

func notApplied(err error) error { return fmt.Errorf("%w: %w", ErrNotApplied, err) }

// transact runs f in transactions until one is committed or fails with anything but a conflict.
func (db *DB) transact(ctx context.Context, f func(*Txn) error) error {
	if err := db.enter(ctx); err != nil {
		return notApplied(err)
	}
	defer db.leave()
	over := time.NewTimer(db.cfg.Timeout) // of tries after conflicts; a single one has ctx alone
	defer over.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conflict, err := db.try(ctx, f)
		if !conflict {
			return err
		}
		select {
		case <-time.After(pause):
		case <-over.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// try runs one transaction, and reports whether it met a conflict.
func (db *DB) try(ctx context.Context, f func(*Txn) error) (conflict bool, err error) {
	ts, err := db.now(ctx)
	if err != nil {
		return false, notApplied(err)
	}
	txn, err := db.client.Begin(client.WithStartTS(ts))
	if err != nil {
		return false, notApplied(explain(err))
	}
	t := &Txn{db: db, txn: txn, read: map[string]struct{}{}}
	err = f(t)
	if err == nil && t.err == nil && txn.Len() > 0 {
		t.err = t.lockReads(ctx)
	}
	switch {
	case err != nil:
	case t.err != nil:
		err = notApplied(t.err)
	case txn.Len() > 0:
		err = committed(txn.Commit(ctx))
		return errors.Is(err, ErrConflict), err
	}
	_ = txn.Rollback() // nothing was sent
	return false, err
}

// lockReads has the commit fail if another transaction wrote what this one read: TiKV compares only
// the keys that a transaction writes or locks.
func (t *Txn) lockReads(ctx context.Context) error {
	keys := make([][]byte, 0, len(t.read))
	for k := range t.read {
		keys = append(keys, []byte(k))
	}
	if len(keys) == 0 {
		return nil
	}
	c := locks.NewLockCtx(t.txn.StartTS(), locks.LockNoWait, time.Now())
	return t.txn.LockKeys(ctx, c, keys...)
}

// committed says what an error of a commit means: every one is ErrNotApplied or ErrUnknown.
func committed(err error) error {
	var again *failures.ErrRetryable
	var latch *failures.ErrWriteConflictInLatch
	var entry *failures.ErrEntryTooLarge
	var all *failures.ErrTxnTooLarge
	switch {
	case err == nil:
		return nil
	case failures.IsErrorUndetermined(err):
		return fmt.Errorf("tikv: %w: %w", ErrUnknown, err)
	case failures.IsErrWriteConflict(err), errors.As(err, &again), errors.As(err, &latch):
		return fmt.Errorf("tikv: %w: %w: %w", ErrNotApplied, ErrConflict, err)
	case errors.As(err, &entry), errors.As(err, &all):
		return fmt.Errorf("tikv: %w: %w: %w", ErrNotApplied, ErrTooLarge, err)
	}
	return notApplied(explain(err))
}
