//go:build unix

package filelock

import "golang.org/x/sys/unix"

// flock is flock(2), again when a signal interrupts it.
func flock(fd int, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		if err := unix.Flock(fd, how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}
