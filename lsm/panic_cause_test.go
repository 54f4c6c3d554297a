package lsm_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// A comparer's panic in the ordering of a memtable is the cause of every later
// error, and what it panicked with is found in them: by an iterator, and by a flush.
func TestOrderingPanicIsTheCause(t *testing.T) {
	for _, use := range []func(*lsm.DB) error{
		func(db *lsm.DB) error { it := db.Iter(nil); it.First(); return it.Close() },
		func(db *lsm.DB) error { return db.Flush() },
	} {
		reason := errors.New("no order today")
		var failing bool
		cmp := &lsm.Comparer{Name: "moody", Compare: func(a, b []byte) int {
			if failing {
				panic(reason)
			}
			return bytes.Compare(a, b)
		}}
		db, err := lsm.Open(t.TempDir(), &lsm.Options{Comparer: cmp})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"b", "a", "c"} {
			if err := db.Put([]byte(k), nil, lsm.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		failing = true
		if err := use(db); !errors.Is(err, reason) {
			t.Errorf("the call says %v", err)
		}
		err = db.Put([]byte("d"), nil, lsm.NoSync)
		if !errors.Is(err, lsm.ErrReadOnly) || !errors.Is(err, reason) {
			t.Errorf("a later write says %v", err)
		}
		db.Close()
	}
}
