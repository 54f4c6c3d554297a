package main

import "golang.org/x/sys/unix"

// preempted is how often the system took the processor away from the thread.
func preempted() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return u.Nivcsw
}
