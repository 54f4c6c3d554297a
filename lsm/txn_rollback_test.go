package lsm

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestRollbackEndsLockWait: each call that waits for a lock of another transaction ends when its
// own transaction is rolled back, whose locks are free then; the holder goes on.
func TestRollbackEndsLockWait(t *testing.T) {
	for name, call := range map[string]func(tx *Txn, key []byte) error{
		"Put":    func(tx *Txn, key []byte) error { return tx.Put(key, nil) },
		"Delete": func(tx *Txn, key []byte) error { return tx.Delete(key) },
		"GetForUpdate": func(tx *Txn, key []byte) error {
			_, err := tx.GetForUpdate(key, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
				defer mustClose(t, db)
				begin := func() *Txn { return db.Begin(&TxnOptions{Lock: true, LockTimeout: -1}) }
				holder, waiter := begin(), begin()
				if err := errors.Join(holder.Put([]byte("a"), nil),
					waiter.Put([]byte("b"), nil)); err != nil {
					t.Fatal(err)
				}
				answer := make(chan error, 1)
				go func() { answer <- call(waiter, []byte("a")) }()
				synctest.Wait()
				if m := db.Metrics().Txn; m.LockWaits != 1 {
					t.Fatalf("%d waits", m.LockWaits)
				}
				if err := waiter.Rollback(); err != nil {
					t.Fatal(err)
				}
				if err := <-answer; !errors.Is(err, ErrTxnDone) {
					t.Fatalf("the call that waited gives %v", err)
				}
				if err := holder.Put([]byte("b"), nil); err != nil {
					t.Fatalf("a key of the transaction that was rolled back: %v", err)
				}
				if err := holder.Commit(NoSync); err != nil {
					t.Fatal(err)
				}
				if held := db.Metrics().Txn.Locks; held != 0 {
					t.Fatalf("%d locks are held", held)
				}
			})
		})
	}
}
