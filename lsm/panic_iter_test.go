package lsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestIterAmongRangeDeletesPanics: an iterator puts range deletes in order when it is opened, those
// of its transaction, too. If the comparer panics then, Iter does not: the iterator has failed, and
// the transaction and the database can be ended, and a further iterator may fail, but not panic.
func TestIterAmongRangeDeletesPanics(t *testing.T) {
	needsNative(t)
	for name, iter := range map[string]func(db *DB, tx *Txn) *Iterator{
		"of the database":  func(db *DB, _ *Txn) *Iterator { return db.Iter(nil) },
		"of a transaction": func(_ *DB, tx *Txn) *Iterator { return tx.Iter(nil) },
	} {
		panics := 0
		for at, reached := int64(1), true; reached; at++ {
			m := newMoody()
			db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: &m.Comparer})
			mustAll(t, db.Put(key(6), nil, NoSync), db.DeleteRange(key(3), key(4), NoSync),
				db.DeleteRange(key(1), key(2), NoSync))
			tx := db.Begin(nil)
			mustAll(t, tx.DeleteRange(key(8), key(9)), tx.DeleteRange(key(5), key(7)))
			m.left.Store(at)
			it := iter(db, tx)
			reached = m.left.Swap(0) <= 0
			for range 2 {
				found, err := it.First(), it.Err()
				switch {
				case !reached && (err != nil || found != (name == "of the database")):
					t.Errorf("%s: %t, %v", name, found, err)
				case reached && (found || !errors.Is(err, ErrReadOnly) ||
					!strings.Contains(err.Error(), "no order today")):
					t.Errorf("%s, comparison %d: %t, %v", name, at, found, err)
				}
			}
			if reached {
				panics++
			}
			_ = it.Close()
			if it := tx.Iter(nil); it.First() || it.Err() != nil && !errors.Is(it.Err(),
				ErrReadOnly) {
				t.Errorf("%s, after comparison %d: %v", name, at, it.Err())
			}
			mustAll(t, tx.Rollback())
			_ = db.Close()
		}
		if panics == 0 {
			t.Errorf("%s: nothing was compared", name)
		}
	}
}
