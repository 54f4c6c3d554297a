package lsm

import (
	"errors"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestRepairAfterRepair ends a repair at each of its calls, and repairs again. A table that
// the first repair left out, since a compaction had replaced it, stays out.
func TestRepairAfterRepair(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		t.Run(format.String(), func(t *testing.T) {
			fs := vfs.NewMem()
			db, err := Open("db", &Options{FS: fs, Format: format})
			must(t, err)
			must(t, errors.Join(db.Put([]byte("a"), []byte("deleted"), NoSync), db.Flush()))
			old, err := fstest.Find(fs, "db", base.FileTable)
			must(t, err)
			data, err := fstest.ReadFile(fs, old[0])
			must(t, err)
			must(t, errors.Join(db.Delete([]byte("a"), NoSync), db.Put([]byte("b"), nil, NoSync),
				db.CompactRange(nil, nil), db.Close()))
			f, err := fs.Create(old[0])
			must(t, err)
			_, err = f.Write(data)
			must(t, errors.Join(err, f.Close()))
			current := "db/CURRENT"
			if format == FormatNative {
				current = "db/CURRENT/manifest"
			}
			must(t, fs.Remove(current))
			for at := 0; ; at++ {
				m, n := fs.Clone(), 0
				_, err := Repair("db", &Options{FS: vfs.NewFault(m, func(vfs.Op) vfs.Outcome {
					if n++; n > at {
						return vfs.Outcome{Err: syscall.EIO}
					}
					return vfs.Outcome{}
				})})
				_, again := Repair("db", &Options{FS: m})
				must(t, again)
				db, openErr := Open("db", &Options{FS: m})
				must(t, openErr)
				if _, err := db.Get([]byte("a"), nil); !errors.Is(err, ErrNotFound) {
					t.Errorf("ended at call %d: the deleted key is there again: %v", at, err)
				}
				_, getErr := db.Get([]byte("b"), nil)
				must(t, errors.Join(getErr, db.Close()))
				if err == nil {
					return
				}
			}
		})
	}
}
