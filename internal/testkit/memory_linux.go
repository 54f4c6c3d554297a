package testkit

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// MemoryDir returns a directory that is removed after the test. It lies in memory if the system has
// room for files there, as a sync takes no time; in long runs it lies on the disk.
func MemoryDir(t testing.TB) string {
	t.Helper()
	const memory, room = "/dev/shm", 1 << 30
	var st unix.Statfs_t
	if Full() || unix.Statfs(memory, &st) != nil || st.Bavail*uint64(st.Bsize) < room {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "loam")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
