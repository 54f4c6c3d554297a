package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// TestMountedTarget: no rename leads to a directory where a file system is mounted, as that of a
// container's volume. A restore and a checkpoint say so before they copy anything; into a new
// directory within it they work.
func TestMountedTarget(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	volume := filepath.Join(dir, "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", volume, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	defer unix.Unmount(volume, unix.MNT_DETACH)
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	must(t, err)
	must(t, db.Put([]byte("key"), []byte("value"), lsm.Sync))
	f, err := backup.Open(filepath.Join(dir, "backups"), nil)
	must(t, err)
	_, err = f.Create(ctx, db, nil)
	must(t, err)
	copied := false
	progress := &backup.RunOptions{Progress: func(done, _ uint64) {
		copied = copied || done > 0
	}}
	for _, err := range []error{
		f.Restore(ctx, 1, volume, progress), db.Checkpoint(ctx, volume),
	} {
		refused := errors.Is(err, lsm.ErrInvalidArgument)
		if !refused || !strings.Contains(err.Error(), "mounted") || copied {
			t.Errorf("%v; copied: %v", err, copied)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 3 {
		t.Errorf("%v, %v", names, err)
	}
	must(t, f.Restore(ctx, 1, filepath.Join(volume, "a"), nil))
	must(t, db.Checkpoint(ctx, filepath.Join(volume, "b")))
	must(t, errors.Join(f.Close(), db.Close()))
}
