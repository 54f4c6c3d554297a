//go:build linux && !amd64 && !arm64

package vfs

import "golang.org/x/sys/unix"

// pwriteNow is pwrite(2); only on 64-bit systems there is a faster way.
func pwriteNow(fd int, p []byte, off int64) (int, error) {
	for {
		n, err := unix.Pwrite(fd, p, off)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}
