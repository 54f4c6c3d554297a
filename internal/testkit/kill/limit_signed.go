//go:build freebsd || dragonfly

package kill

import "syscall"

func setLimit(r *syscall.Rlimit, limit uint64) { r.Cur = int64(limit) }
