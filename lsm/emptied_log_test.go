package lsm

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestEmptiedLogOfClosedDatabase: Close has the MANIFEST say how long the newest log is, so that
// one that is emptied or removed later is damage.
func TestEmptiedLogOfClosedDatabase(t *testing.T) {
	needsNative(t)
	for _, remove := range []bool{false, true} {
		mem := vfs.NewMem()
		o := &Options{FS: mem}
		db := mustOpen(t, "db", o)
		must(t, db.Put([]byte("k"), []byte("v"), Sync))
		must(t, db.Close())
		logs, err := fstest.Find(mem, "db", base.FileLog)
		must(t, err)
		newest := logs[len(logs)-1]
		must(t, mem.Remove(newest))
		if !remove {
			must(t, fstest.WriteFile(mem, newest, nil))
		}
		if db, err := Open("db", o); !errors.Is(err, ErrCorruption) {
			t.Errorf("removed %v: %v, %v", remove, db, err)
		}
	}
}
