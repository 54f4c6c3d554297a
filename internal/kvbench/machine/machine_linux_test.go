package machine

import "testing"

func TestMountOf(t *testing.T) {
	const mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /data xfs rw 0 0\n/dev/c /data/my\\040disk btrfs rw 0 0\nx /data zfs rw 0 0\n"
	for dir, want := range map[string]string{"/": "ext4", "/var/x": "ext4", "/tmp": "tmpfs", "/tmp/a/b": "tmpfs", "/tmpx": "ext4", "/data/1": "zfs", "/data/my disk/1": "btrfs"} {
		if got := mountOf(mounts, dir); got != want {
			t.Errorf("%s is on %s, want %s", dir, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	e := Read("/proc/no/such/directory")
	if e.FileSystem != "proc" || e.Memory == 0 || e.CPU == "" && e.Arch == "amd64" || e.Load < 0 || e.Kernel == "" {
		t.Errorf("%+v", e)
	}
}
