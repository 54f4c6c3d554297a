package inspect

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
)

// TestLongPath: the directory's path may be longer than that of a socket.
func TestLongPath(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		dir = filepath.Join(dir, strings.Repeat("d", 60))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	startedIn(t, dir, echo)
	if err := dialed(t, dir).Ask(t.Context(), &Request{Do: "x"}, nil); err != nil {
		t.Error(err)
	}
	if _, err := listen(filepath.Join(dir, "other")); err == nil ||
		!strings.Contains(err.Error(), "shorter link") {
		t.Error(err)
	}
}

// TestForeignUser: a process of another user is refused, although the permissions of the socket and
// the directory let it connect.
func TestForeignUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	// The directory above that of t.TempDir is closed to others.
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	startedIn(t, dir, echo)
	name := filepath.Join(dir, base.InspectName)
	open := func(path string) error { return unix.Chmod(path, 0o777) }
	if err := errors.Join(open(dir), open(name)); err != nil {
		t.Fatal(err)
	}
	fd, err := newSocket()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // without Unlock: the thread ends, and with it the other user
		const nobody = 65534
		_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		if errno != 0 {
			failed <- errno
			return
		}
		failed <- unix.Connect(fd, &unix.SockaddrUnix{Name: name})
	}()
	if err := <-failed; err != nil {
		unix.Close(fd)
		t.Skip("another user does not reach the directory: ", err)
	}
	c, err := newConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := &Client{c: c, r: bufio.NewReader(c)}
	err = client.Ask(t.Context(), &Request{Do: "x"}, nil)
	if err == nil || !strings.Contains(err.Error(), "the request is of user 65534") {
		t.Error(err)
	}
}

// TestInheritsNot: a process that a thread of the host program starts at any moment inherits no
// socket. The thread that makes them here cannot change their flags afterwards.
func TestInheritsNot(t *testing.T) {
	l, err := listen(filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := newSocket()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(client)
	err = unix.Connect(client, &unix.SockaddrUnix{Name: l.file.Name()})
	if err != nil {
		t.Fatal(err)
	}
	var fds [2]int
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // without Unlock: the thread ends, and with it the filter
		failed <- func() error {
			if err := withoutFcntl(); err != nil {
				return err
			}
			var made, accepted error
			fds[0], made = newSocket()
			fds[1], accepted = acceptSocket(int(l.file.Fd()))
			return errors.Join(made, accepted)
		}()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("flags %d, %v", flags, err)
		}
		unix.Close(fd)
	}
}

// withoutFcntl lets all calls of fcntl by this thread fail.
func withoutFcntl() error {
	const loadWord, jumpEqual, ret = 0x20, 0x15, 0x06 // see linux/filter.h
	const fail, allow = 0x00050000 | uint32(unix.EPERM), 0x7fff0000
	code := []unix.SockFilter{{Code: loadWord}, {Code: jumpEqual, Jf: 1, K: unix.SYS_FCNTL},
		{Code: ret, K: fail}, {Code: ret, K: allow}}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&program)), 0, 0)
}

// TestDialOfPipe: a FIFO in the place of the directory is an error, and Dial does not wait for its
// other end.
func TestDialOfPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(pipe); !errors.Is(err, unix.ENOTDIR) {
		t.Error(err)
	}
}
