package directio

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

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

// TestDurable: files are durable where the disk has what reads have, and not where a read past the
// page cache fails or has other bytes.
func TestDurable(t *testing.T) {
	dir := directDir(t)
	for _, n := range []int{0, 1, Align, compared, compared + 1, 3*compared - 5} {
		name := filepath.Join(dir, "log")
		l := logOf(t, vfs.Default, name, n)
		if !Durable(vfs.Default, name) {
			t.Errorf("%d bytes are not durable", n)
		}
		for read := int64(1); n > 0 && read <= 2; read++ { // of both
			var reads atomic.Int64
			fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) (out vfs.Outcome) {
				if op.Kind == vfs.OpRead && reads.Add(1) >= read {
					out.Err = syscall.EIO
				}
				return out
			})
			if Durable(fsys, name) {
				t.Errorf("%d bytes are durable, although reads fail from %d on", n, read)
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

// TestDurableDiffers: a file has other bytes past the page cache than through it.
func TestDurableDiffers(t *testing.T) {
	dir := directDir(t)
	names := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for i, name := range names {
		l := logOf(t, vfs.Default, name, compared+100)
		if err := errors.Join(l.Append([]byte{byte(i)}), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if Durable(&swapped{FS: vfs.Default, names: names}, names[0]) {
		t.Error("another byte was not noticed")
	}
}

// swapped opens its names one after the other.
type swapped struct {
	vfs.FS
	names []string
}

func (s *swapped) Open(string) (vfs.ReadFile, error) {
	name := s.names[0]
	s.names = s.names[1:]
	return s.FS.Open(name)
}
