package crash

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// fill takes all space of the disk that dir is on, and returns how to free it.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1 << 20; n > 0; {
		if _, err := f.Write(make([]byte, n)); errors.Is(err, unix.ENOSPC) {
			n /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// fullCycle fills the disk under a database, has it refuse writes, frees the disk
// and wants it to go on without being reopened.
func fullCycle(t *testing.T, disk string, l *testkit.Ledger, last int) int {
	o := options()
	place := filepath.Join(disk, "db")
	db, err := lsm.Open(place, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { db.Close() }()
	b := lsm.NewBatch()
	write := func(mode lsm.WriteMode) error {
		l.Fill(b, last+1)
		err := db.Write(b, mode)
		if err == nil {
			last++
		}
		return err
	}
	for range 20 {
		if err := write(lsm.Sync); err != nil {
			t.Fatal(err)
		}
	}
	free := fill(t, disk)
	defer free()
	for range 500 {
		if err = write(lsm.NoSync); err != nil {
			break
		}
	}
	if !errors.Is(err, lsm.ErrNoSpace) || errors.Is(err, lsm.ErrReadOnly) {
		t.Fatalf("on a full disk a write gave %v", err)
	}
	if _, err := l.Check(db, last, last); err != nil {
		t.Fatal(err)
	}
	// A compaction that ends meanwhile gives its inputs' space back: then the flush
	// may find enough.
	if err := db.Flush(); err != nil && (!errors.Is(err, lsm.ErrNoSpace) ||
		errors.Is(err, lsm.ErrReadOnly)) {
		t.Fatalf("on a full disk a flush gave %v", err)
	}
	free()
	if err := db.Resume(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := write(lsm.NoSync); err != nil {
			t.Fatalf("with space again: %v", err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	if err := write(lsm.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = lsm.Open(place, &o); err != nil {
		t.Fatal(err)
	}
	if r := db.RecoveryReport(); !r.WasClean {
		t.Errorf("recovery: %+v", r)
	}
	if _, err := l.Check(db, last, last); err != nil {
		t.Fatal(err)
	}
	return last
}

// TestFullTmpfs fills and frees a small disk.
func TestFullTmpfs(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	defer unix.Unmount(disk, unix.MNT_DETACH)
	l := &testkit.Ledger{Seed: testkit.Seed(t), Keys: 50, MaxValue: 1000}
	last := 0
	for range testkit.Scale(2, 10, 200) {
		last = fullCycle(t, disk, l, last)
	}
}

// TestFullDiskBelow has a file system on a sparse file, on a disk that is full:
// writes reach the page cache, and only syncs fail. What was acknowledged with
// Sync is there after the file system was mounted again.
func TestFullDiskBelow(t *testing.T) {
	below, disk := t.TempDir(), t.TempDir()
	if err := unix.Mount("none", below, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	defer unix.Unmount(below, unix.MNT_DETACH)
	image := filepath.Join(below, "image")
	mount := func() error {
		return exec.Command("mount", "-o", "loop", image, disk).Run()
	}
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfs.ext4", "-q", "-F", image).Run(); err != nil {
		t.Skipf("no mkfs.ext4: %v", err)
	}
	if err := mount(); err != nil {
		t.Skipf("no loop device: %v", err)
	}
	defer exec.Command("umount", disk).Run()
	o := options()
	o.WriteBufferSize = 4 << 20
	l := &testkit.Ledger{Seed: testkit.Seed(t), Keys: 50, MaxValue: 1000}
	place := filepath.Join(disk, "db")
	db, err := lsm.Open(place, &o)
	if err != nil {
		t.Fatal(err)
	}
	b := lsm.NewBatch()
	fill(t, below)
	last, synced := 0, 0
	for err == nil && last < 20000 {
		l.Fill(b, last+1)
		mode := lsm.NoSync
		if last%500 == 499 {
			mode = lsm.Sync
		}
		if err = db.Write(b, mode); err == nil {
			last++
			if mode == lsm.Sync {
				synced = last
			}
		}
	}
	if err == nil || !errors.Is(err, lsm.ErrReadOnly) && !errors.Is(err, lsm.ErrNoSpace) {
		t.Errorf("%d writes, then %v", last, err)
	}
	if _, err := l.Check(db, last, last); err != nil {
		t.Errorf("reading after %v", err)
	}
	db.Close()
	if err := os.Remove(filepath.Join(below, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("umount", disk).Run(); err != nil {
		t.Fatal(err)
	}
	if err := mount(); err != nil {
		t.Skipf("the file system itself did not survive: %v", err)
	}
	if db, err = lsm.Open(place, &o); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := l.Check(db, synced, last+1); err != nil {
		t.Error(err)
	}
}
