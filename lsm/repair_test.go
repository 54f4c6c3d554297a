package lsm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

func TestRepairLosesOneBlockOnly(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, small(Options{}))
	const n = 5_000
	putKeys(t, db, n)
	mustCompact(t, db)
	mustClose(t, db)
	tables, err := fstest.Find(vfs.Default, dir, base.FileTable)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	data[1000] ^= 0xff
	if err := os.WriteFile(tables[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "CURRENT")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrCorruption) {
		t.Fatalf("open: %v", err)
	}
	report, err := Repair(dir, nil)
	if err != nil || len(report.Dropped) == 0 || len(report.SetAside) == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	db = mustOpen(t, dir, nil)
	defer db.Close()
	found := 0
	for i := range n {
		v, err := db.Get(key(i), nil)
		if err == nil && !bytes.Equal(v, value(i)) || err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatalf("%d: %q %v", i, v, err)
		}
		if err == nil {
			found++
		}
	}
	if found < n*9/10 || found == n {
		t.Errorf("%d of %d entries are left after the loss of one block", found, n)
	}
}

// TestRepairKeepsOperators: the repaired database knows the merge operators that the MANIFEST
// names. It serves operands without options, and refuses another operator.
func TestRepairKeepsOperators(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, mergeOptions(nil, "uint64add"))
	ks, err := db.Keyspace("other", &KeyspaceOptions{MergeOperator: MergeOperatorNamed("max")})
	must(t, err)
	for _, operand := range [][]byte{u64(1), u64(2)} {
		must(t, db.Merge([]byte("key"), operand, Sync))
		must(t, ks.Merge([]byte("key"), operand, Sync))
	}
	mustClose(t, db)
	must(t, os.RemoveAll(filepath.Join(dir, "CURRENT")))
	_, err = Repair(dir, nil)
	must(t, err)
	if _, err := Open(dir, mergeOptions(nil, "max")); !errors.Is(err, ErrNoMergeOperator) {
		t.Errorf("with another operator Open returns %v", err)
	}
	db = mustOpen(t, dir, nil)
	ks, err = db.Keyspace("other", nil)
	must(t, err)
	wantIs(t, db, "key", string(u64(3)))
	wantIs(t, ks, "key", string(u64(2)))
	mustClose(t, db)
}
