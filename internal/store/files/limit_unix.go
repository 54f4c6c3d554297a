//go:build unix

package files

import "golang.org/x/sys/unix"

// defaultMaxOpen is the bound on descriptors until SetMaxOpen.
func defaultMaxOpen() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return maxOpenFor(256)
	}
	return maxOpenFor(uint64(l.Cur))
}
