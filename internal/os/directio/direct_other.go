//go:build !linux

package directio

import "errors"

// setDirect fails: only Linux has the call that Loam uses.
func setDirect(uintptr, bool) error { return errors.ErrUnsupported }

// keepsUnwritten says that it is not known what becomes of pages that could not be written.
const keepsUnwritten = false

func uncached(uintptr, int64) bool { return true }
