package lsm

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// gap calls a function where a transaction has given up its mutex and has not read yet.
type gap struct {
	*store.Keyspace
	call func()
}

func (g *gap) Reads() *tree.Tree {
	if f := g.call; f != nil {
		g.call = nil
		f()
	}
	return g.Keyspace.Reads()
}

// TestTxnIterGap takes writes back, and makes others, between the moment that an iterator sees and
// its first look at the writes.
func TestTxnIterGap(t *testing.T) {
	for _, later := range []string{"", "b", "a long value, so that the batch is longer " +
		"than before"} {
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
		tx := db.Begin(nil)
		mustAll(t, tx.Put([]byte("kept"), []byte("1")))
		kept := tx.SavePoint()
		mustAll(t, tx.Put([]byte("taken back"), []byte("2")))
		other := tx.Iter(nil)
		in := &gap{tx.space, func() {
			mustAll(t, tx.RollbackTo(kept))
			if later != "" {
				mustAll(t, tx.Put([]byte("later"), []byte(later)),
					tx.Put([]byte("later still"), []byte(later)))
			}
		}}
		var it tree.Iterator
		tx.txn.Iter(in, &it, tree.IterOptions{})
		for ok := it.First(); ok; ok = it.Next() {
			t.Errorf("then %q: an iterator goes on that has seen writes that were taken back: %s",
				later, it.Key())
		}
		if err := it.Err(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("then %q: %v", later, err)
		}
		if other.First() || !errors.Is(other.Err(), ErrInvalidArgument) {
			t.Errorf("then %q: an iterator that was opened before: %v", later, other.Err())
		}
		it.Close()
		other.Close()
		if it := tx.Iter(nil); !it.First() || string(it.Key()) != "kept" || it.Close() != nil {
			t.Errorf("then %q: an iterator that was opened afterwards: %v", later, it.Err())
		}
		tx.Rollback()
		mustAll(t, db.Close())
	}
}

// TestTxnIterGapEnd ends the transaction there.
func TestTxnIterGapEnd(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer mustClose(t, db)
	tx := db.Begin(nil)
	var it tree.Iterator
	tx.txn.Iter(&gap{tx.space, func() { mustAll(t, tx.Rollback()) }}, &it, tree.IterOptions{})
	if it.First() || !errors.Is(it.Err(), ErrTxnDone) {
		t.Errorf("%v", it.Err())
	}
	it.Close()
}

// TestTxnGetForUpdateGap takes another lock, which moves the snapshot, between the lock of a key
// and its read.
func TestTxnGetForUpdateGap(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer mustClose(t, db)
	put := func(key string) { mustAll(t, db.Put([]byte(key), []byte("v"), NoSync)) }
	put("k")
	tx := db.Begin(&TxnOptions{Lock: true})
	put("other")
	mustAll(t, tx.Put([]byte("first"), nil)) // from here on the snapshot is not that of Begin
	in := &gap{tx.space, func() {
		put("other")
		mustAll(t, tx.Put([]byte("second"), nil))
	}}
	if v, err := tx.txn.GetForUpdate(in, []byte("k"), nil); string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
	mustAll(t, tx.Commit(NoSync))
	if n := db.Metrics().Snapshots; n != 0 {
		t.Errorf("%d snapshots are left", n)
	}
}

// TestTxnRangeDeleteKeepsSnapshot: a range delete takes no locks. So what others write in the range
// afterwards is a conflict, whatever is locked later.
func TestTxnRangeDeleteKeepsSnapshot(t *testing.T) {
	db := nativeTxnDB(t)
	put := func(key string) { mustAll(t, db.Put([]byte(key), []byte("v"), NoSync)) }
	for _, o := range []TxnOptions{{}, {Isolation: Serializable}, {Lock: true},
		{Isolation: Serializable, Lock: true}} {
		tx := db.Begin(&o)
		mustAll(t, tx.DeleteRange([]byte("a"), []byte("m")))
		put("b")
		mustAll(t, tx.Put([]byte("x"), nil))
		if err := tx.Commit(NoSync); !errors.Is(err, ErrConflict) {
			t.Errorf("%+v: a write in a range that was deleted before: %v", o, err)
		}
		if v, err := db.Get([]byte("b"), nil); string(v) != "v" {
			t.Errorf("%+v: %q, %v", o, v, err)
		}
		if !o.Lock {
			continue
		}
		tx = db.Begin(&o)
		put("b")
		// x moves the snapshot behind b
		mustAll(t, tx.Put([]byte("x"), nil), tx.DeleteRange([]byte("a"), []byte("m")))
		put("z")
		if err := tx.Put([]byte("z"), nil); !errors.Is(err, ErrConflict) {
			t.Errorf("%+v: a lock behind a range delete: %v", o, err)
		}
		mustAll(t, tx.Commit(NoSync))
	}
}

// TestTxnOwnReadMovesOn: a read that own writes answer leaves the snapshot free to move.
func TestTxnOwnReadMovesOn(t *testing.T) {
	db := nativeTxnDB(t)
	put := func(key string) { mustAll(t, db.Put([]byte(key), []byte("v"), NoSync)) }
	put("b")
	for name, read := range map[string]func(tx *Txn) error{
		"Get":   func(tx *Txn) error { _, err := tx.Get([]byte("a"), nil); return err },
		"Has":   func(tx *Txn) error { _, err := tx.Has([]byte("a")); return err },
		"other": func(tx *Txn) error { _, err := tx.Get([]byte("b"), nil); return err },
	} {
		tx := db.Begin(&TxnOptions{Lock: true})
		mustAll(t, tx.Put([]byte("a"), nil), read(tx))
		put("z")
		err := tx.Put([]byte("z"), nil)
		if name == "other" != errors.Is(err, ErrConflict) {
			t.Errorf("%s, then a lock: %v", name, err)
		}
		tx.Rollback()
	}
}

// TestTxnRolledBackKeyspace: a keyspace is dropped in which the transaction has taken back all its
// writes.
func TestTxnRolledBackKeyspace(t *testing.T) {
	db := nativeTxnDB(t)
	writes := map[string]func(tx *Txn) error{
		"put":          func(tx *Txn) error { return tx.Put([]byte("a"), nil) },
		"range delete": func(tx *Txn) error { return tx.DeleteRange([]byte("a"), []byte("b")) },
	}
	for name, write := range writes {
		space := mustSpace(t, db, "dropped")
		tx := db.Begin(nil)
		mark := tx.SavePoint()
		mustAll(t, write(tx.In(space)), tx.RollbackTo(mark), tx.Put([]byte("k"), []byte(name)),
			db.DropKeyspace("dropped"))
		if err := tx.Commit(NoSync); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if v, err := db.Get([]byte("k"), nil); string(v) != name {
			t.Errorf("%q, %v", v, err)
		}
	}
	space := mustSpace(t, db, "dropped")
	tx := db.Begin(nil)
	mustAll(t, tx.In(space).Put([]byte("a"), nil))
	mark := tx.SavePoint()
	mustAll(t, tx.In(space).Put([]byte("b"), nil), tx.RollbackTo(mark), db.DropKeyspace("dropped"))
	if err := tx.Commit(NoSync); !errors.Is(err, base.ErrNoKeyspace) {
		t.Errorf("with a write that stands: %v", err)
	}
}
