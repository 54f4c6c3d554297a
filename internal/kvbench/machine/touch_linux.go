package machine

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// TouchMemory writes to n bytes of memory, or to half of what is free, and gives them back. A
// benchmark that follows then finds memory as fast as one that ran before it. Memory that cannot be
// had is not touched, nor less than 16 MiB: no benchmark would show it, and the time of a few pages
// says nothing about the memory.
func TouchMemory(n int64) (t Touched) {
	const page, least = 4096, 16 << 20
	kb, _ := strings.CutSuffix(pairs("/proc/meminfo")["MemFree"], " kB")
	free, _ := strconv.ParseInt(kb, 10, 64)
	if n = min(n, free<<10/2) / page * page; n < least {
		return t
	}
	for _, each := range []*time.Duration{&t.First, &t.Second} {
		m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return t
		}
		start := time.Now()
		for i := int64(0); i < n; i += page {
			m[i] = 1
		}
		*each = time.Since(start) / time.Duration(n/page)
		if unix.Munmap(m) != nil {
			return t
		}
	}
	resetPeak()
	return t
}
