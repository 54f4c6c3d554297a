package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestTouchMemory: the memory is given back, and the peak begins anew.
func TestTouchMemory(t *testing.T) {
	const size = 64 << 20
	before := resident()
	if got := TouchMemory(size); got.First <= 0 || got.Second <= 0 {
		t.Errorf("%+v", got)
	}
	if now := resident(); now > before+size/2 {
		t.Errorf("%d MB more are resident", (now-before)>>20)
	}
	if peak, ok := countedPeak(); resetPeak() && (!ok || peak > before+size/2) {
		t.Errorf("the peak is %d MB, %v, above %d", peak>>20, ok, before>>20)
	}
	for _, n := range []int64{0, 4095, 16<<20 - 1} {
		if got := TouchMemory(n); got != (Touched{}) || got.Slow() {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
	if slow := (Touched{First: 13 * time.Microsecond, Second: time.Microsecond}); !slow.Slow() {
		t.Error("13 times as slow is not slow")
	}
}

// TestMemory: the peak is of the watch alone, and tells own memory from mapped files.
func TestMemory(t *testing.T) {
	const size = 64 << 20
	touch := func(fd, flags int) []byte {
		m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < size; i += 4096 {
			m[i] = 1
		}
		return m
	}
	unmap := func(m []byte) {
		if err := unix.Munmap(m); err != nil {
			t.Fatal(err)
		}
	}
	before := WatchMemory().Finish()
	if before == nil {
		t.Skip("the system does not tell")
	}
	w := WatchMemory()
	unmap(touch(-1, unix.MAP_ANON|unix.MAP_PRIVATE)) // the kernel has seen it, at least
	seen := w.Finish()
	if got := seen.Peak - before.Quiet.Total(); w.counted && got < size*9/10 ||
		seen.Quiet.Total() > before.Quiet.Total()+size/2 {
		t.Errorf("%d MB more at the peak: %+v, before %+v", got>>20, seen, before)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w = WatchMemory()
	if w.counted && w.Finish().Peak > seen.Peak-size/2 {
		t.Error("the peak of the watch before is in the next one")
	}
	w = WatchMemory()
	mapped := touch(int(f.Fd()), unix.MAP_SHARED)
	w.look()
	after := w.Finish()
	unmap(mapped)
	if file := after.Quiet.File + after.Quiet.Shmem - before.Quiet.File - before.Quiet.Shmem; file <
		size*9/10 || after.Quiet.Anon > before.Quiet.Anon+size/2 ||
		after.AtPeak.Total() < after.Quiet.Total() || after.Peak < after.AtPeak.Total() {
		t.Errorf("%d MB of a mapped file: %+v, before %+v", file>>20, after, before)
	}
	known := func(m *Memory, i int) bool { _, ok := m.MB(i); return ok }
	if !known(after, 2) || known(after, 4) || known(nil, 0) {
		t.Errorf("what is known: %+v", after)
	}
	after.Group = &Group{Own: 3 << 20, Cache: 5 << 20}
	own, _ := after.MB(4)
	if cache, ok := after.MB(5); own != 3 || cache != 5 || !ok {
		t.Errorf("the group: %v, %v", own, cache)
	}
}
