package machine

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestMountOf(t *testing.T) {
	const mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /data xfs rw 0 " +
		"0\n/dev/c /data/my\\040disk btrfs rw 0 0\nx /data zfs rw 0 0\n"
	for dir, want := range map[string]string{"/": "ext4", "/var/x": "ext4", "/tmp": "tmpfs",
		"/tmp/a/b": "tmpfs", "/tmpx": "ext4", "/data/1": "zfs", "/data/my disk/1": "btrfs"} {
		if got := mountOf(mounts, dir); got != want {
			t.Errorf("%s is on %s, want %s", dir, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	e := Read("/proc/no/such/directory")
	if e.FileSystem != "proc" || e.Memory == 0 || e.CPU == "" && e.Arch == "amd64" || e.Load < 0 ||
		e.Kernel == "" {
		t.Errorf("%+v", e)
	}
}

// TestResident: memory that is touched counts, even if it is gone at the end.
func TestResident(t *testing.T) {
	const size = 64 << 20
	w := WatchResident()
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += 4096 {
		m[i] = 1
	}
	w.look()
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
	if most, ok := w.Finish(); !ok || most < size*9/10 || most > 4*size {
		t.Errorf("%d MB resident, %v", most>>20, ok)
	}
}
