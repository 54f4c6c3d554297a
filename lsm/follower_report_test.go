package lsm

import (
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestFollowerReportBesideWriter: while a follower opens, at each listing of the directory, the
// writer flushes, and the log that the follower would read goes. The follower reports no part of a
// log as dropped.
func TestFollowerReportBesideWriter(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		for at, more := int64(1), true; more; at++ {
			mem := vfs.NewMem()
			db := mustOpen(t, "db", &Options{FS: mem, Format: format, DisableCompaction: true})
			must(t, db.Put([]byte("a"), []byte("1"), NoSync))
			var lists atomic.Int64
			f, err := OpenFollower("db", &Options{FS: vfs.NewFault(mem,
				func(op vfs.Op) vfs.Outcome {
					if op.Kind == vfs.OpList && lists.Add(1) == at {
						must(t, db.Put([]byte("b"), []byte("1"), NoSync))
						must(t, db.Flush())
						db.engine.Parts().Shared.Files.WaitDeleted()
						must(t, db.Put([]byte("c"), []byte("1"), NoSync))
					}
					return vfs.Outcome{}
				})})
			must(t, err)
			if r := f.RecoveryReport(); !r.WasClean || r.TornBytes > 0 {
				t.Errorf("%v, listing %d: %+v", format, at, r)
			}
			wantIs(t, f, "a", "1")
			must(t, f.Close())
			mustClose(t, db)
			more = lists.Load() >= at
		}
	}
}
