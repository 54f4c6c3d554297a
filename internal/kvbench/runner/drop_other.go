//go:build !linux

package runner

func dropCache(string) error { return errNoState }
