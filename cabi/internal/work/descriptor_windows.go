package work

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// duplicate returns another handle of a file. fd is a HANDLE: the numbers of descriptors belong to
// one of the C libraries that a process may have.
func duplicate(fd int) (*os.File, error) {
	self, name := windows.CurrentProcess(), fmt.Sprint("handle ", fd)
	var own windows.Handle
	err := windows.DuplicateHandle(self, windows.Handle(fd), self, &own, 0, false,
		windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: name, Err: err}
	}
	return os.NewFile(uintptr(own), name), nil
}
