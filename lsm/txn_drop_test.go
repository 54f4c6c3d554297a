package lsm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestTxnMeetsDroppedKeyspace drops a keyspace under transactions of every kind: their snapshots go
// on, their writes into it fail, and a commit that depends on it writes nothing anywhere. One
// that is made again under the name is another one.
func TestTxnMeetsDroppedKeyspace(t *testing.T) {
	for _, again := range []bool{false, true} {
		for _, o := range []TxnOptions{{}, {Isolation: Serializable}, {Lock: true},
			{Isolation: Serializable, Lock: true}} {
			t.Run(fmt.Sprintf("%+v, made again %v", o, again), func(t *testing.T) {
				db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative})
				defer mustClose(t, db)
				users := mustSpace(t, db, "users")
				if err := errors.Join(users.Put([]byte("k"), []byte("old"), NoSync),
					users.Put([]byte("l"), []byte("old"), NoSync)); err != nil {
					t.Fatal(err)
				}
				writer, reader, scanner, updater, bystander :=
					db.Begin(&o), db.Begin(&o), db.Begin(&o), db.Begin(&o), db.Begin(&o)
				txns := []*Txn{writer, reader, scanner, updater, bystander}
				if err := writer.In(users).Put([]byte("k"), []byte("new")); err != nil {
					t.Fatal(err)
				}
				if _, err := reader.In(users).Get([]byte("k"), nil); err != nil {
					t.Fatal(err)
				}
				it := scanner.In(users).Iter(nil)
				if !it.First() {
					t.Fatal(it.Err())
				}
				if _, err := updater.In(users).GetForUpdate([]byte("l"), nil); err != nil {
					t.Fatal(err)
				}
				if err := db.DropKeyspace("users"); err != nil {
					t.Fatal(err)
				}
				if again {
					if err := mustSpace(t, db, "users").Put([]byte("k"), []byte("again"),
						NoSync); err != nil {
						t.Fatal(err)
					}
				}
				if !it.Next() || string(it.Key()) != "l" || it.Next() || it.Close() != nil {
					t.Errorf("an iterator of a transaction: %v", it.Err())
				}
				if v, err := reader.In(users).Get([]byte("l"), nil); string(v) != "old" {
					t.Errorf("a read at the snapshot: %q, %v", v, err)
				}
				if v, err := writer.In(users).Get([]byte("k"), nil); string(v) != "new" {
					t.Errorf("a read of an own write: %q, %v", v, err)
				}
				for i, tx := range txns {
					if err := tx.In(users).Put([]byte("k"), []byte("late")); !errors.Is(err,
						ErrNoKeyspace) {
						t.Errorf("%d: a put into what was dropped: %v", i, err)
					}
					if err := tx.Put(fmt.Appendf(nil, "%d", i), []byte("v")); err != nil {
						t.Errorf("%d: a put elsewhere: %v", i, err)
					}
				}
				for i, tx := range txns {
					depends := i == 0 || i == 3 || i < 3 && o.Isolation == Serializable
					err := tx.Commit(NoSync)
					if depends != errors.Is(err, ErrNoKeyspace) || !depends && err != nil {
						t.Errorf("%d: commit: %v", i, err)
					}
					if _, err := db.Get(fmt.Appendf(nil, "%d", i),
						nil); errors.Is(err, ErrNotFound) != depends {
						t.Errorf("%d: its write elsewhere: %v", i, err)
					}
				}
				if m := db.Metrics(); m.Snapshots != 0 || m.Txn.Locks != 0 {
					t.Errorf("left over: %d snapshots, %d locks", m.Snapshots, m.Txn.Locks)
				}
			})
		}
	}
}
