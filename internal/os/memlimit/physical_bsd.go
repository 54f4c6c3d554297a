//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package memlimit

import "golang.org/x/sys/unix"

// Machine is the memory of the machine in bytes; 0: unknown.
func Machine() int64 {
	for _, name := range []string{"hw.memsize", "hw.physmem64", "hw.physmem"} {
		if n, err := unix.SysctlUint64(name); err == nil {
			return int64(n)
		}
	}
	return 0
}
