//go:build unix

package filelock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// flock is flock(2).
func flock(fd int, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	return Again(func() error { return flockCall(fd, how|unix.LOCK_NB) })
}

// flockCall is flock(2). Tests replace it.
var flockCall = unix.Flock

// errNoLocks is errors.ErrUnsupported, with what can be done.
type errNoLocks struct{ cause error }

func (e errNoLocks) Error() string {
	return fmt.Sprintf("the file system has no file locks, without which two processes could "+
		"write the same database: mount it with locks, or choose another directory (%v)", e.cause)
}
func (e errNoLocks) Unwrap() error        { return e.cause }
func (e errNoLocks) Is(target error) bool { return target == errors.ErrUnsupported }

// unsupported tells the answers of file systems that do not have a kind of lock.
func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || err == unix.EINVAL || err == unix.ENOLCK
}
