package inplace

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestMissingPages: while reads ask, a page that is not in memory is not touched, and keeps
// them asking.
func TestMissingPages(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t")
	b, _ := open(t, vfs.OS{MapAnywhere: true}, name, content())
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if in, known := resident(b.data[8*blockLen : 9*blockLen]); in || !known {
		t.Skip("the file system keeps its pages")
	}
	var p pressure
	p.asking.Store(5)
	if p.mayTouch(b.data[8*blockLen : 9*blockLen]) {
		t.Error("a missing page may be touched")
	}
	if n := p.asking.Load(); n != askFor {
		t.Errorf("asks %d times more", n)
	}
	if _, err := f.ReadAt(make([]byte, blockLen), 8*blockLen); err != nil {
		t.Fatal(err)
	}
	if !p.mayTouch(b.data[8*blockLen : 9*blockLen]) {
		t.Error("a page that was read is missing")
	}
}

// TestMajorFaults: the count does not go back.
func TestMajorFaults(t *testing.T) {
	if a, b := majorFaults(), majorFaults(); b < a {
		t.Errorf("%d, then %d", a, b)
	}
}

// TestResident: of a file without bytes of its own, pages are missing until they are read.
func TestResident(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const size, at = 1 << 30, 1 << 29
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.OS{MapAnywhere: true}.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := vfs.Map(f, size)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := m.Bytes()
	if in, known := resident(b[at : at+1<<20]); in || !known {
		t.Error("pages that were never read", in, known)
	}
	if b[at] != 0 || b[at+4096] != 0 {
		t.Error("a hole has bytes")
	}
	if in, known := resident(b[at+4000 : at+4100]); !in || !known {
		t.Error("pages that were just read", in, known)
	}
}
