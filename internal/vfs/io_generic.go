//go:build !linux

package vfs

import "os"

// Systems without these hints do without.

func prefetch(f *os.File, off, n int64) {}

func startWriteBack(f *os.File, off, n int64) {}

func syncFile(f *os.File) error { return f.Sync() }
