package base

import "syscall"

// The numbers are those of winerror.h; the POSIX ones are for file systems that
// the user plugged in.
var (
	errnosNoSpace = []syscall.Errno{
		39,   // ERROR_HANDLE_DISK_FULL
		112,  // ERROR_DISK_FULL
		1295, // ERROR_DISK_QUOTA_EXCEEDED
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG,
	}
	errnosTooManyFiles = []syscall.Errno{
		4, // ERROR_TOO_MANY_OPEN_FILES
		syscall.EMFILE, syscall.ENFILE,
	}
	errnosNoMemory = []syscall.Errno{
		8,    // ERROR_NOT_ENOUGH_MEMORY
		14,   // ERROR_OUTOFMEMORY
		1455, // ERROR_COMMITMENT_LIMIT
		syscall.ENOMEM,
	}
)
