//go:build darwin || freebsd

package inspect

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newSocket makes a socket that no child process of Go inherits and that blocks no thread.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return prepare(fd)
}

// acceptSocket takes a connection, which is such a socket.
func acceptSocket(on int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, _, err := unix.Accept(on)
	if err != nil {
		return -1, err
	}
	return prepare(fd)
}

func prepare(fd int) (int, error) {
	unix.CloseOnExec(fd)
	if err := errors.Join(unix.SetNonblock(fd, true), quiet(fd)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// quiet keeps a client that is gone from raising SIGPIPE.
func quiet(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NOSIGPIPE, 1) }

// peer is the user of the process that connected.
func peer(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
