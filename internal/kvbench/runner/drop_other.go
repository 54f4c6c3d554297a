//go:build !linux

package runner

// DropCache is not possible here.
func DropCache(string) error { return errNoState }
