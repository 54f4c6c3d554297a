//go:build amd64 || arm64

package offheap

import "unsafe"

// Prefetch asks the processor to bring n bytes at p into its cache, and does not
// wait. p need not be valid.
//
//go:noescape
func Prefetch(p unsafe.Pointer, n int)
