package syscalls

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Decide is asked about a system call of the child with its arguments. A number other than 0 is the
// call's error, and the kernel does nothing.
type Decide func(args [6]uint64) syscall.Errno

// ErrNoFilter says that the system does not let one process decide on calls of another one.
var ErrNoFilter = errors.New("no seccomp filters here")

// Run starts the program again, which calls Child first, with args, and decides on its system calls
// of number nr. The error has what the child printed.
func Run(nr int, decide Decide, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	own, other := ends[0], os.NewFile(uintptr(ends[1]), "socket")
	defer unix.Close(own)
	cmd := exec.Command(self, args...)
	// Signals interrupt a call that waits for its decision, which is asked for again.
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d false", stage, nr),
		"GODEBUG=asyncpreemptoff=1")
	cmd.ExtraFiles = []*os.File{other}
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err = cmd.Start()
	other.Close()
	if err != nil {
		return err
	}
	listener, err := receive(own)
	if err == nil {
		err = supervise(listener, decide)
		unix.Close(listener)
	}
	if failed := cmd.Wait(); failed != nil && !errors.Is(err, ErrNoFilter) {
		return fmt.Errorf("%w: %s", cmp.Or(err, failed), bytes.TrimSpace(printed.Bytes()))
	}
	return err
}

// receive is the descriptor that the child sends.
func receive(socket int) (int, error) {
	b, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, b, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return 0, errors.Join(ErrNoFilter, err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return 0, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

// question and answer are struct seccomp_notif and struct seccomp_notif_resp.
type question struct {
	id         uint64
	pid, flags uint32
	nr, arch   uint32
	address    uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// goOn is SECCOMP_USER_NOTIF_FLAG_CONTINUE: the kernel does what was called.
const goOn = 1

// supervise decides on calls until the child has ended.
func supervise(listener int, decide Decide) error {
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		_, err := unix.Poll(ready, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || ready[0].Revents&unix.POLLIN == 0:
			return err
		}
		var q question
		if ask(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)) != 0 {
			continue // the thread has ended
		}
		a := answer{id: q.id, err: -int32(decide(q.args))}
		if a.err == 0 {
			a.flags = goOn
		}
		ask(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
	}
}

func ask(listener int, request uintptr, value unsafe.Pointer) syscall.Errno {
	_, _, err := syscall.Syscall(syscall.SYS_IOCTL, uintptr(listener), request, uintptr(value))
	return err
}
