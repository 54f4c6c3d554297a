package memlimit

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// Machine is the memory of the machine in bytes; 0: unknown.
func Machine() int64 {
	status := struct { // MEMORYSTATUSEX
		length, load                                             uint32
		total, free, totalFile, freeFile, totalVirtual, freeVirt uint64
		extended                                                 uint64
	}{}
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return int64(status.total)
}
