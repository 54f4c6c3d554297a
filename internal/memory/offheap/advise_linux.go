package offheap

import "golang.org/x/sys/unix"

// adviseHuge ignores the error: kernels without huge pages refuse, and the
// memory works all the same.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

func releasePages(b []byte) {
	if unix.Madvise(b, unix.MADV_DONTNEED) != nil { // locked pages, for one
		clear(b)
	}
}
