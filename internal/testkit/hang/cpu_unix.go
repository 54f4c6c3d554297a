//go:build unix

package hang

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime is what the process has used so far.
func ProcessorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
