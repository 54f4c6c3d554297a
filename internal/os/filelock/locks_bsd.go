//go:build unix && !linux

package filelock

import "golang.org/x/sys/unix"

// On the BSDs and macOS flock and fcntl locks conflict with each other, so one
// of them keeps users of both out, and taking both would be refused. flock is
// the one that does not vanish when another descriptor of the file is closed.

// Held is what Take took of a file.
type Held struct{}

// Take takes the lock of an open file. Where the file system has none, errors.Is(err,
// errors.ErrUnsupported) holds.
func Take(fd int, shared bool) (Held, error) {
	err := flock(fd, shared)
	if unsupported(err) {
		err = errNoLocks{err}
	}
	return Held{}, err
}

// Renew has nothing to take again.
func (*Held) Renew(fd int, shared bool) error { return nil }

// Holder does not know which process has a flock lock.
func Holder(fd int) int { return 0 }

// Drop gives the lock back.
func Drop(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }

// CountsLinks assumes that these systems' file systems count the names of files. Tests replace it.
var CountsLinks = func(int) bool { return true }
