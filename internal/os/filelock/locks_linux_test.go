package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// system is a file system's answers to requests of locks; nil ones pass.
type system struct{ fcntl, flock error }

// use replaces the system calls for the time of a test.
func (s system) use(t *testing.T) {
	t.Cleanup(func() { flockCall, fcntlCall = unix.Flock, unix.FcntlFlock })
	interrupted := false
	interrupt := func() bool {
		interrupted = !interrupted
		return interrupted
	}
	flockCall = func(fd, how int) error {
		switch {
		case interrupt():
			return unix.EINTR
		case s.flock != nil:
			return s.flock
		}
		return unix.Flock(fd, how)
	}
	fcntlCall = func(fd uintptr, cmd int, lk *unix.Flock_t) error {
		switch {
		case interrupt():
			return unix.EINTR
		case s.fcntl != nil:
			return s.fcntl
		}
		return unix.FcntlFlock(fd, cmd, lk)
	}
}

func open(t *testing.T, name string) int {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// TestTake: one of the two locks is enough where the file system does not have the other one, and
// an error where it has neither says so.
func TestTake(t *testing.T) {
	for _, tc := range []struct {
		system
		want error
	}{
		{system{nil, nil}, nil},
		{system{unix.ENOSYS, nil}, nil},
		{system{unix.ENOLCK, nil}, nil},
		{system{unix.EOPNOTSUPP, nil}, nil},
		{system{nil, unix.ENOSYS}, nil},
		{system{nil, unix.EOPNOTSUPP}, nil},
		{system{nil, unix.EINVAL}, nil},
		{system{nil, unix.ENOLCK}, unix.ENOLCK},
		{system{nil, unix.EIO}, unix.EIO},
		{system{unix.EIO, nil}, unix.EIO},
		{system{unix.ENOLCK, unix.ENOLCK}, errors.ErrUnsupported},
		{system{unix.ENOSYS, unix.ENOSYS}, errors.ErrUnsupported},
		{system{unix.ENOLCK, unix.EOPNOTSUPP}, unix.ENOLCK},
		{system{unix.ENOSYS, unix.EWOULDBLOCK}, unix.EWOULDBLOCK},
	} {
		tc.use(t)
		name := filepath.Join(t.TempDir(), "LOCK")
		fd := open(t, name)
		h, err := Take(fd, false)
		if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%v: %v", tc.system, err)
		}
		if err != nil {
			continue
		}
		if err := h.Renew(fd, false); err != nil {
			t.Errorf("%v: again: %v", tc.system, err)
		}
		if tc.flock == nil { // a classic fcntl lock is the process's
			if _, err := Take(open(t, name), false); err != unix.EWOULDBLOCK {
				t.Errorf("%v: the second one: %v", tc.system, err)
			}
			Drop(fd)
			if _, err := Take(open(t, name), false); err != nil {
				t.Errorf("%v: after Drop: %v", tc.system, err)
			}
		}
	}
}

// TestTakeOneLockOfTwo: some file systems make one kind of lock of both, with two owners, so that
// a process shuts itself out.
func TestTakeOneLockOfTwo(t *testing.T) {
	t.Cleanup(func() { flockCall, fcntlCall = unix.Flock, unix.FcntlFlock })
	owner := "" // of the only lock
	take := func(who string, release bool) error {
		switch {
		case release && owner == who:
			owner = ""
		case !release && owner != "" && owner != who:
			return unix.EAGAIN
		case !release:
			owner = who
		}
		return nil
	}
	flockCall = func(fd, how int) error { return take("file", how&unix.LOCK_UN != 0) }
	fcntlCall = func(_ uintptr, _ int, lk *unix.Flock_t) error {
		return take("process", lk.Type == unix.F_UNLCK)
	}
	fd := open(t, filepath.Join(t.TempDir(), "LOCK"))
	h, err := Take(fd, false)
	if err != nil || owner == "" {
		t.Fatalf("%q has the lock, %v", owner, err)
	}
	if err := h.Renew(fd, false); err != nil {
		t.Error("again: ", err)
	}
	Drop(fd)
	if owner != "" {
		t.Errorf("%s has the lock after Drop", owner)
	}
	owner = "another program"
	if _, err := Take(fd, false); err != unix.EAGAIN || owner != "another program" {
		t.Errorf("%v, and %s has the lock", err, owner)
	}
}

// TestShortageOfLocks: a shortage in the kernel is an error of Take, and none of Renew; what else
// it says is one of both.
func TestShortageOfLocks(t *testing.T) {
	for errno, renewed := range map[error]error{unix.ENOLCK: nil, unix.ENOMEM: nil,
		unix.EAGAIN: unix.EAGAIN, unix.EIO: unix.EIO} {
		fd := open(t, filepath.Join(t.TempDir(), "LOCK"))
		system{}.use(t)
		h, err := Take(fd, false)
		if err != nil {
			t.Fatal(err)
		}
		system{fcntl: errno}.use(t)
		if err := h.Renew(fd, false); err != renewed {
			t.Errorf("%v: again: %v", errno, err)
		}
		if _, err := Take(fd, false); errno != unix.ENOLCK && err != errno {
			t.Errorf("%v: taken: %v", errno, err)
		}
	}
}

// TestAgain: a call that a signal interrupts is made again, and no other one.
func TestAgain(t *testing.T) {
	for _, want := range []error{nil, unix.EIO} {
		calls := 0
		err := Again(func() error {
			if calls++; calls < 3 {
				return unix.EINTR
			}
			return want
		})
		if err != want || calls != 3 {
			t.Errorf("%v after %d calls, not %v", err, calls, want)
		}
	}
}
