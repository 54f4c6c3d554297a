//go:build unix

package kill

import (
	"os/signal"
	"syscall"
)

// limitFiles makes writes beyond limit bytes of any file of this process fail
// with EFBIG; 0 lifts the limit.
func limitFiles(limit uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
		return err
	}
	if limit == 0 {
		r.Cur = r.Max
	} else {
		setLimit(&r, limit)
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r)
}
