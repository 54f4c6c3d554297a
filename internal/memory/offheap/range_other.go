//go:build !linux

package offheap

// Elsewhere an extent is mapped as a whole.

func mapRange(int, int, bool) ([]byte, bool) { return nil, false }

func growRange([]byte, int, bool) error { return nil }

func unmapRange([]byte) {}

func canMove() bool { return false }

func movePages(_, _ []byte) bool { return false }
