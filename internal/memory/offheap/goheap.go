package offheap

import "runtime/metrics"

// GoHeap is how many bytes of the process's memory the Go runtime holds: heap, stacks and its own,
// without what it gave back to the system.
func GoHeap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
