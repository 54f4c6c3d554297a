package memlimit

import (
	"os"

	"golang.org/x/sys/unix"
)

// Groups lists the cgroups that count the memory of the process, the nearest first.
func Groups() []Group {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return groupsIn(string(mounts), string(own))
}

// Machine is the memory of the machine in bytes; 0: unknown.
func Machine() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}
