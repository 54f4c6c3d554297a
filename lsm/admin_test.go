package lsm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestDestroyNeedsTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := mustOpen(t, dir, nil)
	mustPut(t, db, 1)
	if err := Destroy(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("destroy of an open database: %v", err)
	}
	mustClose(t, db)
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("still there: %v", err)
	}
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
}
