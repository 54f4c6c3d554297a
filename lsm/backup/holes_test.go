package backup_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestHoleBehindALog: a checkpoint and a backup of a database whose log ends with a hole
// have what the log has, and not the hole.
func TestHoleBehindALog(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		for _, full := range []bool{true, false} {
			root := t.TempDir()
			dir := filepath.Join(root, "db")
			o := small(vfs.Default)
			o.Format = format
			db := mustOpen(t, dir, o)
			if full {
				fill(t, db, 0, 100)
			}
			want := dump(t, db)
			must(t, db.Close())
			logs, err := filepath.Glob(filepath.Join(dir, "*.wal"))
			must(t, err)
			if format == lsm.FormatLevelDB {
				logs, err = filepath.Glob(filepath.Join(dir, "*.log"))
				must(t, err)
			}
			for _, log := range logs {
				must(t, os.Truncate(log, 64<<20))
			}
			db = mustOpen(t, dir, &lsm.Options{ReadOnly: true})
			must(t, db.Checkpoint(ctx, filepath.Join(root, "checkpoint")))
			f := mustFolder(t, filepath.Join(root, "backups"), vfs.Default)
			info := mustCreate(t, f, db)
			must(t, f.Restore(ctx, info.ID, filepath.Join(root, "restored"), nil))
			must(t, errors.Join(db.Close(), f.Close()))
			if len(logs) == 0 || info.Bytes > 1<<20 {
				t.Errorf("%v: %d logs, a backup of %d bytes", format, len(logs), info.Bytes)
			}
			for _, copied := range []string{"checkpoint", "restored"} {
				db := mustOpen(t, filepath.Join(root, copied), nil)
				if got := dump(t, db); !maps.Equal(got, want) {
					t.Errorf("%v: %d entries of %d", format, len(got), len(want))
				}
				if r := db.RecoveryReport(); len(r.Dropped) > 0 {
					t.Errorf("%v: %+v", format, r)
				}
				must(t, db.Close())
			}
		}
	}
}
