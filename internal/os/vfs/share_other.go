//go:build !unix && !windows

package vfs

import "os"

// openShared opens a file.
func openShared(name string, flags int) (*os.File, error) { return os.OpenFile(name, flags, 0o600) }

// syncRead syncs a file that is open for reading.
func syncRead(f *os.File) error { return syncFile(f) }
