package directio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/vfs"
)

// diskDir is a directory that is not in memory alone.
func diskDir(t *testing.T) string {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type == unix.TMPFS_MAGIC {
		t.Skipf("%s is in memory: %v", dir, err)
	}
	return dir
}

// logOf writes a log of n bytes and does not sync it.
func logOf(t *testing.T, fsys vfs.FS, name string, n int) vfs.Log {
	l, err := fsys.CreateLog(name, 0)
	if err == nil {
		err = l.Append(make([]byte, n))
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDurable: files are durable where the disk has what reads have, and not where a read fails or
// has other bytes without the page cache.
func TestDurable(t *testing.T) {
	dir := diskDir(t)
	for _, n := range []int{0, 1, Align, compared, compared + 1, 3*compared - 5} {
		name := filepath.Join(dir, "log")
		l := logOf(t, vfs.Default, name, n)
		if !Durable(vfs.Default, name) {
			t.Errorf("%d bytes are not durable", n)
		}
		parts := int64(n+compared-1) / compared
		for read := int64(1); read <= 2*parts; read++ { // of both
			var reads atomic.Int64
			fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) (out vfs.Outcome) {
				if op.Kind == vfs.OpRead && reads.Add(1) == read {
					out.Err = syscall.EIO
				}
				return out
			})
			if Durable(fsys, name) {
				t.Errorf("%d bytes are durable, although read %d fails", n, read)
			}
		}
		if err := errors.Join(l.Close(), vfs.Default.Remove(name)); err != nil {
			t.Fatal(err)
		}
	}
	if Durable(vfs.Default, filepath.Join(dir, "none")) {
		t.Error("a missing file is durable")
	}
}

// TestDurableDiffers: another byte comes from the disk than from the page cache.
func TestDurableDiffers(t *testing.T) {
	name := filepath.Join(diskDir(t), "log")
	l := logOf(t, vfs.Default, name, compared+100)
	reads := 0
	fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) (out vfs.Outcome) {
		if op.Kind != vfs.OpRead {
			return out
		}
		if reads++; reads == 4 { // the last part, for the second time
			out.Err = os.WriteFile(name, bytes.Repeat([]byte{1}, compared+100), 0o600)
		}
		return out
	})
	if Durable(fsys, name) || reads != 4 {
		t.Errorf("another byte was not noticed in %d reads", reads)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDurableIsCached: what stays in the page cache is not known to be on disk.
func TestDurableIsCached(t *testing.T) {
	name := filepath.Join(diskDir(t), "log")
	if err := logOf(t, vfs.Default, name, 3*Align).Close(); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.Default.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := vfs.Map(f, 3*Align)
	if err != nil {
		t.Skip("the file system cannot map files: ", err)
	}
	if first := m.Bytes()[Align]; first != 0 || Durable(vfs.Default, name) {
		t.Error("a page that is mapped was read from the disk")
	}
	if err := m.Close(); err != nil || !Durable(vfs.Default, name) {
		t.Errorf("it stays so: %v", err)
	}
}
