//go:build !unmap || !linux

package offheap

// Unmap reports that freed memory is unreadable in this build.
const Unmap = false

func allocAnew(int) ([]byte, error) { return nil, nil }

// Retire is called in builds with Unmap only.
func Retire([]byte) error { return nil }

// CheckFault is called in builds with Unmap only.
func CheckFault(uintptr) {}
