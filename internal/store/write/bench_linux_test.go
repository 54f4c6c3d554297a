package write

import (
	"os"

	"golang.org/x/sys/unix"
)

func preallocate(f *os.File, n int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, n) }
func datasync(f *os.File) error             { return unix.Fdatasync(int(f.Fd())) }
