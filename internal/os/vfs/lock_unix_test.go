//go:build unix

package vfs

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/filelock"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// TestLockOnABlockedDisk: while a Lock waits for its disk, files of other devices are opened,
// locked and given back.
func TestLockOnABlockedDisk(t *testing.T) {
	const memory = "/dev/shm"
	elsewhere, err := os.MkdirTemp(memory, "loam")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
	here := t.TempDir()
	var there, blocked unix.Stat_t
	must(t, filelock.Lstat(unix.AT_FDCWD, elsewhere, &there))
	must(t, filelock.Lstat(unix.AT_FDCWD, here, &blocked))
	if there.Dev == blocked.Dev {
		t.Skip("one device")
	}
	kept, err := OS{}.Lock(filepath.Join(elsewhere, "held"))
	must(t, err)

	var once atomic.Bool
	waits, gate := make(chan struct{}), make(chan struct{})
	id := filelock.IDOf
	filelock.IDOf = func(st *unix.Stat_t) filelock.ID {
		if st.Dev == blocked.Dev && st.Mode&unix.S_IFMT == unix.S_IFREG && !once.Swap(true) {
			close(waits)
			<-gate
		}
		return id(st)
	}
	defer func() { filelock.IDOf = id }()
	locked := make(chan error)
	var late io.Closer
	go func() {
		var err error
		late, err = OS{}.Lock(filepath.Join(here, "late"))
		locked <- err
	}()
	<-waits
	hang.Within(t, "what other devices have", func() {
		l, err := OS{}.Lock(filepath.Join(elsewhere, "another"))
		must(t, err)
		f, err := OS{}.Open(filepath.Join(elsewhere, "another"))
		must(t, err)
		must(t, f.Close())
		must(t, l.Close())
		must(t, kept.Close())
	})
	close(gate)
	must(t, <-locked)
	must(t, late.Close())
}
