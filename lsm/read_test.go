package lsm

import (
	"bytes"
	"errors"
	"testing"
)

func TestTryGetReadsMemoryOnly(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	mustPut(t, db, 1)
	if v, err := db.TryGet(key(1), nil); err != nil || !bytes.Equal(v, value(1)) {
		t.Fatalf("from the memtable: %q %v", v, err)
	}
	mustFlush(t, db)
	mustClose(t, db)
	db = mustOpen(t, dir, nil)
	defer db.Close()
	if _, err := db.TryGet(key(1), nil); !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("not in memory: %v", err)
	}
	wantValue(t, db, 1)
	if v, err := db.TryGet(key(1), nil); err != nil || !bytes.Equal(v, value(1)) {
		t.Fatalf("from the cache: %q %v", v, err)
	}
}
