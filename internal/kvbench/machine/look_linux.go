package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the thread.
func threadTime() (user, system time.Duration) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}
