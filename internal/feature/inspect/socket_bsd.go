//go:build darwin || freebsd

package inspect

import "golang.org/x/sys/unix"

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
