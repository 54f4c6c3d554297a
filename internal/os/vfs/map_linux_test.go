package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/filelock"
)

// TestLocalFileSystems: the kernel's own file systems that answer from memory or by other
// programs do not count as local.
func TestLocalFileSystems(t *testing.T) {
	local := func(name string) bool {
		f, err := os.Open(name)
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		return filelock.IsLocal(int(f.Fd()))
	}
	for _, name := range []string{"/proc/self/maps", "/sys/kernel/mm"} {
		if local(name) {
			t.Errorf("%s counts as local", name)
		}
	}
	var st unix.Statfs_t
	dir := t.TempDir()
	must(t, unix.Statfs(dir, &st))
	if known := st.Type == unix.EXT4_SUPER_MAGIC ||
		st.Type == unix.TMPFS_MAGIC; known && !local(dir) {
		t.Errorf("%#x does not count as local", st.Type)
	}
	if local("/dev/shm") != true {
		t.Error("tmpfs does not count as local")
	}
	if filelock.IsLocal(-1) {
		t.Error("a file that is none counts as local")
	}
}

// TestMapHuge: a file without bytes of its own can be mapped up to a bound, and reads as
// zeros.
func TestMapHuge(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	must(t, os.WriteFile(name, nil, 0o600))
	const size = 1 << 40
	must(t, os.Truncate(name, size))
	f, err := OS{MapAnywhere: true}.Open(name)
	must(t, err)
	defer f.Close()
	if _, err := Map(f, 1<<45); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	m, err := Map(f, size)
	must(t, err)
	defer m.Close()
	const at = 1 << 39
	if m.Bytes()[at] != 0 {
		t.Error("a hole has bytes")
	}
}

// TestMappingsAreBounded: the process keeps the system's limit of mappings for others.
func TestMappingsAreBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	writeFile(t, Default, name, "hello")
	f, err := OS{MapAnywhere: true}.Open(name)
	must(t, err)
	defer f.Close()
	taken := maxMappings - mappings.Load() - 1
	mappings.Add(taken)
	defer mappings.Add(-taken)
	m, err := Map(f, 5)
	must(t, err)
	if _, err := Map(f, 5); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	must(t, m.Close())
	if m, err = Map(f, 5); err != nil {
		t.Fatal(err)
	}
	must(t, m.Close())
}
