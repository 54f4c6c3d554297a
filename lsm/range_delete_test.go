package lsm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/preview"
	"github.com/loamdb/loam/internal/vfs"
)

func TestDeleteRangeBasics(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem(), Format: FormatNative})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 1000 {
		if err := db.Put(fmt.Appendf(nil, "k%04d", i), []byte("v"), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	snap := db.Snapshot()
	check := func(when string) {
		t.Helper()
		n := 0
		it := db.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		back := 0
		for ok := it.Last(); ok; ok = it.Prev() {
			back++
		}
		if err := it.Close(); err != nil || n != 200 || back != 200 {
			t.Errorf("%s: %d forward, %d back, %v", when, n, back, err)
		}
		if _, err := db.Get([]byte("k0500"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", when, err)
		}
		if v, err := db.Get([]byte("k0900"), nil); string(v) != "v" {
			t.Errorf("%s: %v", when, err)
		}
	}
	b := NewBatch()
	preview.DeleteRange(b.In(nil), []byte("k0100"), []byte("k0900"))
	if err := db.Write(b, NoSync); err != nil {
		t.Fatal(err)
	}
	check("in the memtable")
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	check("flushed with a snapshot")
	if v, err := snap.Get([]byte("k0500"), nil); string(v) != "v" {
		t.Error(err)
	}
	snap.Close()
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	check("compacted")
	t.Log(db.Metrics().Compact)
}
