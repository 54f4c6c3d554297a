//go:build unix

package runner

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/kvbench/machine"
)

func readUsage() usage {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return usage{written: -1, dirtied: -1}
	}
	rss := int64(ru.Maxrss)
	if runtime.GOOS != "darwin" {
		rss <<= 10 // kilobytes elsewhere
	}
	user, system := machine.Looked()
	u := usage{
		user:   time.Duration(ru.Utime.Nano()) - user,
		system: time.Duration(ru.Stime.Nano()) - system,
		maxRSS: rss,
	}
	u.written, u.dirtied = bytesWritten()
	return u
}

// bytesWritten reads Linux's counts of bytes passed to calls that write, and of bytes that are to
// reach a disk: of pages made dirty, and of direct writes.
func bytesWritten() (written, dirtied int64) {
	written, dirtied = -1, -1
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return written, dirtied
	}
	for line := range strings.Lines(string(b)) {
		name, v, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		switch {
		case err != nil:
		case name == "wchar":
			written = n
		case name == "write_bytes":
			dirtied = n
		}
	}
	return written, dirtied
}

// allocated is what a file takes on disk.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}
