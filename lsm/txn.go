package lsm

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/locks"
	"github.com/loamdb/loam/internal/feature/txn"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// ConflictError names a key that was written after a transaction began. errors.As finds it in an
// error for which errors.Is(err, ErrConflict) holds.
type ConflictError struct {
	Keyspace string // Keyspace is the name of the keyspace of the key.
	Key      []byte // Key is the first such key that was found. It is a copy.
}

// Error names the key.
func (e *ConflictError) Error() string { return (*txn.Conflict)(e).Error() }

// Is makes errors.Is(e, ErrConflict) hold.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// DeadlockError names the transactions that would wait for each other. errors.As finds it in an
// error for which errors.Is(err, ErrDeadlock) holds.
type DeadlockError struct {
	// Waiter and Holder are the names of the transaction whose call failed, and of the one whose
	// lock it asked for.
	Waiter, Holder string
	// WaiterKey is the key that the waiter asked for, HolderKey the one that the holder waits for.
	WaiterKey, HolderKey []byte
	// Between is the number of further transactions in the circle.
	Between int
}

// Error names both transactions and the keys that they wait for.
func (e *DeadlockError) Error() string { return (*locks.Deadlock)(e).Error() }

// Is makes errors.Is(e, ErrDeadlock) hold.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Isolation says which writes of others make a commit fail.
type Isolation uint8

// The isolations of transactions.
const (
	// SnapshotIsolation refuses a commit if a key that the transaction has written, or
	// read by GetForUpdate, was written by another since it began. Two transactions may
	// still each read what the other one writes (write skew).
	SnapshotIsolation Isolation = iota
	// Serializable also refuses it if a key, or a range of keys, that the transaction has
	// read was written: the transactions that commit have the effect of some order of
	// theirs, one after the other. A transaction without writes and GetForUpdate always commits.
	Serializable
)

// defaultLockTimeout is that of RocksDB.
const defaultLockTimeout = time.Second

// TxnOptions configures a transaction. Nil and zero fields mean: optimistic, with
// SnapshotIsolation.
type TxnOptions struct {
	// Isolation says which writes of others make the commit fail. The default is SnapshotIsolation.
	Isolation Isolation
	// Lock makes the transaction pessimistic: Put, Delete, Merge and GetForUpdate take the lock of
	// their key, wait while another transaction with Lock has it, and keep it to the end.
	// Transactions that wait get a lock in the order of their calls. Keys that the comparer calls
	// equal have one lock. The default is false.
	//
	// At first each lock moves the transaction's snapshot to the present, so that writes of the
	// transactions that it waited for are no conflict. The snapshot stays from the first MultiGet,
	// Iter or DeleteRange on, and from the first Get or Has that is not answered by a write of the
	// transaction itself; then a lock on a key that was written since the snapshot fails with
	// ErrConflict. Commit notices writes without a lock, by DB.Put for instance.
	Lock bool
	// LockTimeout is how long a call waits for a lock; negative: without end. A deadlock is found
	// at once. The default, 0, is 1 s.
	LockTimeout time.Duration
	// ReadOnly refuses writes, and GetForUpdate, with ErrInvalidArgument. The default is false.
	ReadOnly bool
	// Name is the name of the transaction in errors about locks. The default, "", is a number.
	Name string
	// Mode is the mode of the commit that Update and UpdateWith make. The default is NoSync.
	Mode WriteMode
}

// Txn is a transaction. It reads one state of the database, that of its beginning, with its own
// writes on top; its writes become visible, and durable, together at Commit or not at all. Until
// then they are in memory, up to the limit of a batch (nearly 4 GiB). A Txn holds a snapshot, and
// so must be ended by Commit or Rollback. Make one with DB.Begin, DB.Update or DB.View.
//
// A Txn is safe for concurrent use; its calls take effect one after another. After Commit or
// Rollback all calls but Rollback fail with ErrTxnDone; its iterators go on. All methods fail as
// those of DB do, too.
type Txn struct {
	txn   *txn.Txn
	space *store.Keyspace
	mode  WriteMode
}

// begun is a transaction and its inside, in one piece of memory.
type begun struct {
	Txn
	inside txn.Txn
}

// Begin begins a transaction. A nil o means the defaults. Begin itself does not fail: where the
// database is closed, calls on the transaction fail with ErrClosed, and where o.Isolation is
// unknown, with ErrInvalidArgument.
func (db *DB) Begin(o *TxnOptions) *Txn {
	o = cmp.Or(o, &TxnOptions{})
	b := &begun{}
	b.txn, b.space, b.mode = &b.inside, db.space, o.Mode
	in := txn.Options{Serializable: o.Isolation == Serializable, Lock: o.Lock, ReadOnly: o.ReadOnly,
		Name: o.Name, LockTimeout: o.LockTimeout}
	if in.LockTimeout == 0 {
		in.LockTimeout = defaultLockTimeout
	}
	db.engine.Txns.Begin(b.txn, in)
	if o.Isolation > Serializable {
		b.txn.Fail(base.Invalidf("isolation %d is unknown: it is SnapshotIsolation or "+
			"Serializable", o.Isolation))
	}
	return &b.Txn
}

// Update calls f with a transaction and commits it if f returns nil. After a conflict, a deadlock
// or a lock time-out it does so again with a new transaction, until ctx is done; then its error
// wraps that of ctx and that of the last attempt. Any other error of f ends it, with nothing
// written. f must not commit the transaction, nor use it after it has returned.
func (db *DB) Update(ctx context.Context, f func(tx *Txn) error) error {
	return db.UpdateWith(ctx, nil, f)
}

// UpdateWith is Update with transactions that have the options o; nil means the defaults.
func (db *DB) UpdateWith(ctx context.Context, o *TxnOptions, f func(tx *Txn) error) error {
	if ctx == nil || f == nil {
		return base.Invalidf("Update needs a context and a function")
	}
	return txn.Retry(ctx, func() error { return db.try(f, o) })
}

// try calls f once. The transaction ends even if f panics.
func (db *DB) try(f func(tx *Txn) error, o *TxnOptions) error {
	tx := db.Begin(o)
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(tx.mode)
}

// View calls f with a ReadOnly transaction, which reads one state of the database, and rolls it
// back afterwards. It returns the error of f.
func (db *DB) View(f func(tx *Txn) error) error {
	if f == nil {
		return base.Invalidf("View needs a function")
	}
	tx := db.Begin(&TxnOptions{ReadOnly: true})
	defer tx.Rollback()
	return f(tx)
}

// In returns the same transaction for reads and writes in another keyspace of its database; nil is
// the default one. In a keyspace of another database all calls fail with ErrInvalidArgument.
func (tx *Txn) In(k *Keyspace) *Txn {
	root := tx.space.Database()
	if k == nil {
		return &Txn{tx.txn, root.Default(), tx.mode}
	}
	if k.space.Database() != root {
		b := &begun{}
		b.txn, b.space = &b.inside, tx.space
		b.txn.Fail(base.Invalidf("the keyspace is another database's"))
		return &b.Txn
	}
	return &Txn{tx.txn, k.space, tx.mode}
}

// Get appends the value of key to dst and returns the result: the value that the transaction has
// written, or that of its snapshot. A missing key is ErrNotFound, and dst is returned as it was.
// Neither key nor dst is retained; key must not lie in the room behind dst.
func (tx *Txn) Get(key, dst []byte) ([]byte, error) { return tx.txn.Get(tx.space, key, dst, 0) }

// TryGet is Get without I/O: when own writes, memtables and cached blocks do not hold the
// answer it fails with ErrWouldBlock.
func (tx *Txn) TryGet(key, dst []byte) ([]byte, error) {
	return tx.txn.Get(tx.space, key, dst, sstable.MemoryOnly)
}

// GetNoFill is Get that leaves the block cache as it is.
func (tx *Txn) GetNoFill(key, dst []byte) ([]byte, error) {
	return tx.txn.Get(tx.space, key, dst, sstable.NoFill)
}

// GetForUpdate is Get of a key that the rest of the transaction depends on: Commit fails
// with ErrConflict if another has written it since, even if this one does not write it.
// With TxnOptions.Lock it takes the key's lock first, and fails with ErrLockTimeout or
// ErrDeadlock where it does not get it; a lock that the transaction has already is no wait.
func (tx *Txn) GetForUpdate(key, dst []byte) ([]byte, error) {
	return tx.txn.GetForUpdate(tx.space, key, dst)
}

// Has reports whether key has a value. It fails as Get does, but a missing key is no error.
func (tx *Txn) Has(key []byte) (bool, error) { return tx.txn.Has(tx.space, key) }

// MultiGet looks up many keys: result.Value(i) is that of keys[i]. It fails as Get does, but
// a missing key is no error; after an error the results are not to be used.
func (tx *Txn) MultiGet(keys [][]byte, result *MultiResult) error {
	if result == nil {
		return base.Invalidf("MultiGet needs a MultiResult")
	}
	return tx.txn.MultiGet(tx.space, keys, &result.r)
}

// Iter opens an iterator over the snapshot with what the transaction has written until now. It does
// not see later writes, so that a loop may write while it iterates. A nil o means all keys;
// o.Snapshot is ignored. Close it when done; it outlives the transaction.
//
// After a RollbackTo that takes back writes of before it was opened, First, Last and seeks fail
// with ErrInvalidArgument, and Next and Prev do once they need writes that were not read ahead:
// open another one. With Serializable the keys and gaps that it passes count as read.
func (tx *Txn) Iter(o *IterOptions) *Iterator {
	if o == nil {
		o = &IterOptions{}
	}
	it := &Iterator{}
	tx.txn.Iter(tx.space, &it.tree, tree.IterOptions{Lower: o.Lower, Upper: o.Upper,
		Prefix: o.Prefix, KeysOnly: o.KeysOnly, NoFillCache: o.NoFillCache})
	return it
}

// All is DB.All in the transaction.
func (tx *Txn) All(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return walk(tx, IterOptions{Lower: lower, Upper: upper}, false, err)
}

// Backward is DB.Backward in the transaction.
func (tx *Txn) Backward(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return walk(tx, IterOptions{Lower: lower, Upper: upper}, true, err)
}

// Prefix is DB.Prefix in the transaction.
func (tx *Txn) Prefix(prefix []byte, err *error) iter.Seq2[[]byte, []byte] {
	return walk(tx, IterOptions{Prefix: prefix}, false, err)
}

// Put sets key to value in the transaction. Both are copied. It fails with ErrTooLarge above
// the limit of a batch; with TxnOptions.Lock as GetForUpdate does.
func (tx *Txn) Put(key, value []byte) error {
	return tx.txn.Write(tx.space, base.KindSet, key, value)
}

// Delete removes key in the transaction, whether it exists or not. It fails as Put does.
func (tx *Txn) Delete(key []byte) error { return tx.txn.Write(tx.space, base.KindDelete, key, nil) }

// Merge adds an operand to key in the transaction; reads apply it to what the transaction
// sees. It counts as a write of the key, as Put does, and fails as DB.Merge and Txn.Put do.
func (tx *Txn) Merge(key, operand []byte) error {
	return tx.txn.Write(tx.space, base.KindMerge, key, operand)
}

// DeleteRange removes all keys from start up to, not including, limit in the transaction.
// Commit fails with ErrConflict if another has written one of them since the transaction
// began; with TxnOptions.Lock, since the snapshot that the transaction had at the DeleteRange,
// which takes no locks. It fails as DB.DeleteRange and Txn.Put do.
func (tx *Txn) DeleteRange(start, limit []byte) error {
	return tx.txn.Write(tx.space, base.KindRangeDelete, start, limit)
}

// SavePoint is a point in a transaction to which RollbackTo goes back. The zero SavePoint is none.
type SavePoint struct{ serial uint64 }

// SavePoint marks the present point of the transaction. On a transaction that has ended it returns
// the zero SavePoint, which RollbackTo refuses.
func (tx *Txn) SavePoint() SavePoint {
	serial, err := tx.txn.SavePoint()
	if err != nil {
		return SavePoint{}
	}
	return SavePoint{serial}
}

// Number is the savepoint as a number, for bindings of other languages; that of the zero SavePoint
// is 0.
func (s SavePoint) Number() uint64 { return s.serial }

// SavePointOf is the inverse of SavePoint.Number.
func SavePointOf(number uint64) SavePoint { return SavePoint{number} }

// RollbackTo takes back the writes and savepoints made after s; s itself stays. Locks are kept, and
// reads still count. It fails with ErrInvalidArgument if s was taken back or is of another
// transaction.
func (tx *Txn) RollbackTo(s SavePoint) error { return tx.txn.RollbackTo(s.serial) }

// Commit makes the writes visible together, in the mode of a write, and ends the transaction
// whatever it returns: after an error nothing of it is written. Its locks are given back. It fails
// with ErrConflict, and as DB.Write does.
func (tx *Txn) Commit(mode WriteMode) error { return tx.txn.Commit(mode.commit()) }

// Rollback ends the transaction without a trace. A call of another goroutine that waits for a lock
// of it ends with ErrTxnDone. After the transaction's end Rollback does nothing, so that it may be
// deferred. The error is always nil.
func (tx *Txn) Rollback() error {
	tx.txn.Rollback()
	return nil
}

// Close is Rollback: it makes a Txn a Reader.
func (tx *Txn) Close() error { return tx.Rollback() }

// CompareAndSwap sets key to value if its value is old, and reports whether it did. A nil old
// stands for no value, an empty one for a value of no bytes; a nil value deletes the key. It fails
// as Put does.
func (k *keyspace) CompareAndSwap(key, old, value []byte,
	mode WriteMode) (swapped bool, err error) {
	return k.root.engine.Txns.CompareAndSwap(k.space, key, old, value, mode.commit())
}

// PutIfAbsent sets key to value if it has no value, and reports whether it did. It fails as Put
// does.
func (k *keyspace) PutIfAbsent(key, value []byte, mode WriteMode) (put bool, err error) {
	if value == nil {
		value = []byte{}
	}
	return k.CompareAndSwap(key, nil, value, mode)
}

// TxnMetrics counts transactions, those of CompareAndSwap and View included.
type TxnMetrics struct {
	Begun int64 // Begun is the number of transactions begun.
	// Committed is the number of transactions that committed; others failed, were rolled back or go
	// on.
	Committed int64
	Conflicts int64 // Conflicts is the number of calls that failed with ErrConflict.
	Locks     int64 // Locks is the number of locks that transactions hold now.
	LockWaits int64 // LockWaits is the number of calls that waited for a lock.
	Deadlocks int64 // Deadlocks is the number of calls that failed with ErrDeadlock.
	// LockTimeouts is the number of calls that failed with ErrLockTimeout.
	LockTimeouts int64
}
