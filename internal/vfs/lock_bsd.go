//go:build unix && !linux

package vfs

import "golang.org/x/sys/unix"

// On the BSDs and macOS flock and fcntl locks conflict with each other, so one
// of them keeps users of both out, and taking both would be refused. flock is
// the one that does not vanish when another descriptor of the file is closed.

func takeLocks(fd int, shared bool) (whole bool, err error) { return true, flock(fd, shared) }

func renewLocks(fd int, shared, whole bool) (bool, error) { return whole, nil }

func dropLocks(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }
