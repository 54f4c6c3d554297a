//go:build unix

package lsm

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestMergeIntoTooMuch has an operator return values that no table holds: reads of the key fail,
// flushes and compactions leave the operands, and writes go on. An operand that Partial returns,
// and that is as large, is not used.
func TestMergeIntoTooMuch(t *testing.T) {
	// Addresses without memory: the race detector would take some for a slice of this length.
	huge, err := syscall.Mmap(-1, 0, 1<<32, syscall.PROT_READ,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	defer syscall.Munmap(huge)
	partial := false
	for _, large := range []int64{0, 100} {
		for _, partial = range []bool{false, true} {
			o := mergeOptions(vfs.NewMem(), "")
			o.LargeValue = large
			o.MergeOperator = &MergeOperator{Name: "huge",
				Full: func(_, _, _ []byte, operands [][]byte) ([]byte, error) {
					return huge, nil
				},
				Partial: func(_, _, _, _ []byte) ([]byte, bool) { return huge, partial }}
			testMergeIntoTooMuch(t, openMerging(t, o))
		}
	}
}

func testMergeIntoTooMuch(t *testing.T, db *DB) {
	defer db.Close()
	wantFailed := func() {
		t.Helper()
		_, err := db.Get([]byte("key"), nil)
		if !errors.Is(err, ErrMergeFailed) || !errors.Is(err, ErrTooLarge) {
			t.Fatalf("Get: %v; want %v and %v", err, ErrMergeFailed, ErrTooLarge)
		}
	}
	for range 2 {
		for range 2 {
			if err := db.Merge([]byte("key"), []byte("operand"), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
		wantFailed()
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	wantFailed()
	for i := range 2_000 { // more than a memtable
		if err := db.Put(fmt.Append(nil, i), make([]byte, 100), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Put([]byte("key"), []byte("value"), NoSync); err != nil {
		t.Fatal(err)
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	wantRead(t, db, "key", "value")
	if n := db.Metrics().MergeFailures; n == 0 {
		t.Error("no failure was counted")
	}
}
