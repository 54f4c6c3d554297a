//go:build !linux

package directio

import "errors"

// setDirect fails: only Linux has the call that Loam uses.
func setDirect(uintptr, bool) error { return errors.ErrUnsupported }
