package directio

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setDirect turns O_DIRECT of an open file on or off.
func setDirect(fd uintptr, on bool) error {
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if on {
		flags |= unix.O_DIRECT
	} else {
		flags &^= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(fd, unix.F_SETFL, flags)
	return err
}

// keepsUnwritten says that pages that could not be written stay in the page cache.
const keepsUnwritten = true

// uncached drops the first n bytes of a synced file from the page cache, and reports whether none
// of them is left there: pages stay that a process has mapped, and those of tmpfs.
func uncached(fd uintptr, n int64) bool {
	if n == 0 {
		return true
	}
	if int64(int(n)) != n || unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) != nil {
		return false
	}
	mem, err := unix.Mmap(int(fd), 0, int(n), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(mem) }()
	page := os.Getpagesize()
	in := make([]byte, (len(mem)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))),
		uintptr(len(mem)), uintptr(unsafe.Pointer(unsafe.SliceData(in))))
	return errno == 0 && !slices.ContainsFunc(in, func(b byte) bool { return b&1 != 0 })
}
