//go:build !linux

package directio

import "errors"

// setDirect fails: only Linux has the call that Loam uses.
func setDirect(uintptr, bool) error { return errors.ErrUnsupported }

// keepsUnwritten: whether these systems keep pages that could not be written is not known.
const keepsUnwritten = false

func uncached(uintptr, int64) bool { return true }
