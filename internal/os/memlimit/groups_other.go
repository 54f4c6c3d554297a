//go:build !linux

package memlimit

// Groups lists the cgroups that count the memory of the process; elsewhere than on Linux, none.
func Groups() []Group { return nil }
