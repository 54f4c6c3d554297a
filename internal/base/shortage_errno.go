//go:build !windows

package base

import "syscall"

// EFBIG is what a write beyond RLIMIT_FSIZE, or beyond the largest file of the
// file system, fails with.
var (
	errnosNoSpace      = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
	errnosTooManyFiles = []syscall.Errno{syscall.EMFILE, syscall.ENFILE}
	errnosNoMemory     = []syscall.Errno{syscall.ENOMEM}
)
