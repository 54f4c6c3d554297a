package vfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// newDisk mounts an ext4 file system of its own, or skips the test.
func newDisk(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("fsfreeze"); err != nil {
		t.Skip(err)
	}
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Skipf("%s: %v: %s", name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 512<<20))
	run("mkfs.ext4", "-q", "-F", image)
	device := run("losetup", "--find", "--show", image)
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	run("mount", "-t", "ext4", device, dir)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// TestBlockedAppendsLetTheWorldStop freezes the file system under three logs: all that
// writes to it waits in the kernel, page faults too. Meanwhile the world is stopped
// again and again, which must not wait for the file system.
func TestBlockedAppendsLetTheWorldStop(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const frozen = 2 * time.Second
	dir := newDisk(t)
	var group sync.WaitGroup
	stop := make(chan struct{})
	for name, pause := range map[string]time.Duration{"fast": 0, "slow": 100 * time.Microsecond,
		"plain": 0} {
		l, err := OS{PlainLog: name == "plain"}.CreateLog(filepath.Join(dir, name), 1<<20)
		must(t, err)
		group.Go(func() {
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			record := make([]byte, 141)
			for n := 0; n < 150<<20; n += len(record) {
				select {
				case <-stop:
					return
				default:
				}
				if err := l.Append(record); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(pause)
			}
		})
	}
	const freezes = 3
	var longest time.Duration
	stops := 0 // that took nearly as long as the file system was frozen
	group.Go(func() {
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			begin := time.Now()
			runtime.ReadMemStats(&m)
			took := time.Since(begin)
			longest = max(longest, took)
			if took > frozen*3/4 {
				stops++
			}
		}
	})
	// By another process, which goes on when this one does not.
	for range freezes {
		script := fmt.Sprintf("sleep 0.1; fsfreeze -f '%s' && sleep %.1f; fsfreeze -u '%s'", dir,
			frozen.Seconds(), dir)
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("fsfreeze: %v: %s", err, out)
		}
	}
	close(stop)
	group.Wait()
	t.Logf("the world stopped within %v", longest)
	if stops == freezes { // one or another may be the machine's
		t.Errorf("stopping the world took up to %v beside appends that waited for the file "+
			"system, each time", longest)
	}
}
