//go:build !linux

package testkit

import "testing"

// MemoryDir returns a directory that is removed after the test.
func MemoryDir(t testing.TB) string { return t.TempDir() }
