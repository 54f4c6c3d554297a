//go:build !linux

package write

import "os"

func preallocate(f *os.File, n int64) error { return f.Truncate(n) }
func datasync(f *os.File) error             { return f.Sync() }
