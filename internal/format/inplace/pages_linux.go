package inplace

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident tells whether the pages of b are in memory, and whether the system has told. Of a file
// that the process could not write the system says that all are.
//
// The call does not wait for a disk, so Go's scheduler is not told about it.
func resident(b []byte) (in, known bool) {
	const some = 64
	var vec [some]byte
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	end := begin + uintptr(len(b))
	for at := begin &^ (page - 1); at < end; at += some * page {
		pages := min((end-at+page-1)/page, some)
		if _, _, e := unix.RawSyscall(unix.SYS_MINCORE, at, pages*page,
			uintptr(unsafe.Pointer(&vec))); e != 0 {
			return false, false
		}
		for _, in := range vec[:pages] {
			if in&1 == 0 {
				return false, true
			}
		}
	}
	return true, true
}

// majorFaults is how often a thread of the process has waited for a page of a file.
func majorFaults() int64 {
	var use unix.Rusage
	if _, _, e := unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_SELF,
		uintptr(unsafe.Pointer(&use)), 0); e != 0 {
		return 0
	}
	return use.Majflt
}
