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

// TestDestroyThroughLink: the link is not the database's.
func TestDestroyThroughLink(t *testing.T) {
	parent := t.TempDir()
	dir, link := filepath.Join(parent, "db"), filepath.Join(parent, "link")
	mustClose(t, mustOpen(t, dir, nil))
	if err := os.Symlink("db", link); err != nil {
		t.Skip("no links here: ", err)
	}
	must(t, Destroy(link, nil))
	if _, err := os.Lstat(link); err != nil {
		t.Errorf("the link is gone: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
