package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writtenBytes is what this process had written to the disk: pages that it made dirty, by calls or
// through mapped files, without those that were truncated before they were written.
func writtenBytes() int64 {
	written, cancelled := counter("/proc/self/io", "write_bytes:"),
		counter("/proc/self/io", "cancelled_write_bytes:")
	return written - cancelled
}

// peak is the largest resident size in bytes.
func peak() int64 { return counter("/proc/self/status", "VmHWM:") << 10 }

func counter(file, name string) (n int64) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}

// cpuTime is that of all threads, in the program and in the kernel.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// space is what the files of a directory take on the disk.
func space(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}
