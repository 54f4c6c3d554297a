package lsm

import (
	"bytes"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

func TestSnapshotsSurviveCompaction(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	putKeys(t, db, 3_000)
	snap := db.Snapshot()
	defer snap.Close()
	for i := range 3_000 {
		if err := db.Put(key(i), []byte("new"), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	mustCompact(t, db)
	for i := range 3_000 {
		v, err := snap.Get(key(i), nil)
		if err != nil || !bytes.Equal(v, value(i)) {
			t.Fatalf("snapshot get %d: %q %v", i, v, err)
		}
		if v, _ := db.Get(key(i), nil); string(v) != "new" {
			t.Fatalf("get %d: %q", i, v)
		}
	}
}
