//go:build !linux

package vfs

import "os"

// Systems without these hints do without.

func prefetch(f *os.File, off, n int64) {}

func startWriteBack(f *os.File, off, n int64) {}

func syncFile(f *os.File) error { return f.Sync() }

func mayCompress(fd int) bool { return true }

// hasNoHole cannot tell.
func hasNoHole(fd int, size int64) bool { return false }

// nextData knows no holes.
func nextData(f *os.File, off, size int64) int64 { return off }
