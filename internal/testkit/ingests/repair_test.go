package ingests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestRepairKeepsOrder ingests tables, one over the other and over what was written before, and
// loses the MANIFEST: after a repair the newest value of each key is there.
func TestRepairKeepsOrder(t *testing.T) {
	fsys := vfs.NewMem()
	o := &lsm.Options{FS: fsys, Format: lsm.FormatNative, DisableCompaction: true}
	db, err := lsm.Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 100
	value := func(i, round int) []byte { return fmt.Appendf(nil, "value %d of %d", round, i) }
	for i := range keys {
		if err := db.Put(fmt.Appendf(nil, "key%03d", i), value(i, 0), lsm.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	for round := 1; round < 3; round++ {
		path := fmt.Sprint("/table", round)
		w, err := lsm.NewTableWriter(path, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range keys / round {
			if err := w.Put(fmt.Appendf(nil, "key%03d", i), value(i, round)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if err := db.Ingest(context.Background(), nil, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := fsys.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, name := range list {
		if strings.Contains(name, ".manifest") {
			if err := fsys.Remove("/db/" + name); err != nil {
				t.Fatal(err)
			}
			lost++
		}
	}
	if lost == 0 {
		t.Fatalf("there is no MANIFEST among %v", list)
	}
	if _, err := lsm.Repair("/db", o); err != nil {
		t.Fatal(err)
	}
	if db, err = lsm.Open("/db", o); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range keys {
		newest := 1
		if i < keys/2 {
			newest = 2
		}
		got, err := db.Get(fmt.Appendf(nil, "key%03d", i), nil)
		if err != nil || string(got) != string(value(i, newest)) {
			t.Fatalf("key %d is %q, %v; want %q", i, got, err, value(i, newest))
		}
	}
}
