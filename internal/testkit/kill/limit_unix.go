//go:build unix

package kill

import (
	"os/signal"
	"syscall"
)

// limitFiles makes writes beyond limit bytes of any file of this process fail
// with EFBIG; 0 sets no limit.
func limitFiles(limit uint64) error {
	if limit == 0 {
		return nil
	}
	signal.Ignore(syscall.SIGXFSZ)
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
		return err
	}
	setLimit(&r, limit)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r)
}
