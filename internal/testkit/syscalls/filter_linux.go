package syscalls

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stage is the variable of the environment that says how far Child is: first it installs the
// filter, which only a new program has in all its threads.
const stage = "LOAM_SYSCALLS"

// toParent is the descriptor of a child that leads to its parent.
const toParent = 3

// Of struct sock_filter, see linux/filter.h and linux/seccomp.h.
const (
	loadWord, jumpEqual, ret = 0x20, 0x15, 0x06
	notify, allow            = 0x7fc00000, 0x7fff0000
)

// Child makes a process that Run started one whose system call nr the parent decides on, and runs
// life there; any other process is none. It belongs at the beginning of TestMain, which is to exit
// with the error.
func Child(life func(args []string) error) (is bool, err error) {
	var nr uint32
	var begun bool
	if n, _ := fmt.Sscan(os.Getenv(stage), &nr, &begun); n < 2 {
		return false, nil
	}
	if begun {
		return true, life(os.Args[1:])
	}
	return true, becomeFiltered(nr)
}

// becomeFiltered runs the program again, with a filter that the parent has the descriptor of.
func becomeFiltered(nr uint32) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(stage, fmt.Sprint(nr, true)); err != nil {
		return err
	}
	args, env := os.Args, os.Environ()
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := []unix.SockFilter{{Code: loadWord}, {Code: jumpEqual, Jf: 1, K: nr},
		{Code: ret, K: notify}, {Code: ret, K: allow}}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// Until the parent has the descriptor nobody answers this thread's calls: no memory is taken,
	// which may call mmap.
	rights, text := unix.UnixRights(0), []byte{0}
	part := unix.Iovec{Base: &text[0]}
	part.SetLen(len(text))
	message := unix.Msghdr{Iov: &part, Control: &rights[0]}
	message.SetIovlen(1)
	message.SetControllen(len(rights))
	fd, _, failed := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return fmt.Errorf("seccomp: %w", failed)
	}
	binary.NativeEndian.PutUint32(rights[unix.CmsgLen(0):], uint32(fd))
	if _, _, failed = syscall.RawSyscall(unix.SYS_SENDMSG, toParent,
		uintptr(unsafe.Pointer(&message)), 0); failed != 0 {
		return fmt.Errorf("sendmsg: %w", failed)
	}
	unix.CloseOnExec(int(fd))
	unix.CloseOnExec(toParent)
	return syscall.Exec(self, args, env)
}
