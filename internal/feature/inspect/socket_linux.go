package inspect

import (
	"os"

	"golang.org/x/sys/unix"
)

// newSocket makes a socket that no child process inherits, one of the host program's threads
// included, and that blocks no thread. Against SIGPIPE MSG_NOSIGNAL is enough.
func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX,
		unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	return fd, os.NewSyscallError("socket", err)
}

// acceptSocket takes a connection, which is such a socket.
func acceptSocket(on int) (int, error) {
	fd, _, err := unix.Accept4(on, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	return fd, err
}

// peer is the user of the process that connected.
func peer(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
