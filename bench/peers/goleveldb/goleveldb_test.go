package goleveldb

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) { storetest.Run(t, Driver{}) }

// TestFlushIsNoCompaction: a flush writes the memtable, and leaves the tables of before alone.
func TestFlushIsNoCompaction(t *testing.T) {
	db, err := Driver{}.Open(t.TempDir(), store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 3 {
		if err := errors.Join(db.Put([]byte("a"), []byte{byte(i)}, false), db.Put([]byte("z"),
			[]byte{byte(i)}, false), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Metrics().Tables; n != 3 {
		t.Errorf("%d tables of 3 flushes", n)
	}
	if err := db.Compact(); err != nil {
		t.Fatal(err)
	}
	if n := db.Metrics().Tables; n != 1 {
		t.Errorf("%d tables after a compaction", n)
	}
}
