//go:build !linux

package kill

import "errors"

// ErrNoDisk says that this process cannot make and mount file systems.
var ErrNoDisk = errors.New("no file system of its own")

// PowerCut needs Linux.
func PowerCut(int64, int, string, ...string) error { return ErrNoDisk }
