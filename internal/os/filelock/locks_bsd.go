//go:build unix && !linux

package filelock

import "golang.org/x/sys/unix"

// On the BSDs and macOS flock and fcntl locks conflict with each other, so one
// of them keeps users of both out, and taking both would be refused. flock is
// the one that does not vanish when another descriptor of the file is closed.

// Take takes the lock of an open file. whole is true if no lock remains to be taken later.
func Take(fd int, shared bool) (whole bool, err error) { return true, flock(fd, shared) }

// Renew has nothing to take again.
func Renew(fd int, shared, whole bool) (bool, error) { return whole, nil }

// Holder does not know which process has a flock lock.
func Holder(fd int) int { return 0 }

// Drop gives the lock back.
func Drop(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }
