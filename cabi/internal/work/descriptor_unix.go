//go:build unix

package work

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// duplicate returns another descriptor of a file, which child processes do not get.
func duplicate(fd int) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: fmt.Sprint("descriptor ", fd), Err: err}
	}
	return os.NewFile(uintptr(own), fmt.Sprint("descriptor ", fd)), nil
}
