package syscalls

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// failing are calls that fail now and then, with the errors that a system may give.
var failing = []struct {
	call string
	errs []syscall.Errno
}{
	{"close", []syscall.Errno{unix.EDQUOT, unix.EIO}},
	{"fdatasync", []syscall.Errno{unix.ENOSPC, unix.EIO}},
	{"flock", []syscall.Errno{unix.ENOMEM, unix.ENOLCK}},
	{"fstat", []syscall.Errno{unix.ENOMEM, unix.EIO}},
	{"fsync", []syscall.Errno{unix.EDQUOT, unix.EIO}},
	{"ftruncate", []syscall.Errno{unix.ENOSPC, unix.EIO}},
	{"getdents64", []syscall.Errno{unix.ENOMEM, unix.EIO}},
	{"linkat", []syscall.Errno{unix.EDQUOT, unix.EACCES}},
	{"mkdirat", []syscall.Errno{unix.ENOSPC, unix.EACCES}},
	{"newfstatat", []syscall.Errno{unix.ENOMEM, unix.EIO}},
	{"openat", []syscall.Errno{unix.EMFILE, unix.ENOMEM, unix.EACCES}},
	{"pread64", []syscall.Errno{unix.ENOMEM, unix.EIO}},
	{"pwrite64", []syscall.Errno{unix.EDQUOT, unix.EIO}},
	{"renameat", []syscall.Errno{unix.ENOSPC, unix.EIO}},
	{"unlinkat", []syscall.Errno{unix.ENOMEM, unix.EIO}},
	{"write", []syscall.Errno{unix.ENOSPC, unix.EIO}},
}

// TestFailingCalls: every n-th call of a kind fails. Errors are what the system says, with their
// sentinels, and what was acknowledged is there when calls work again.
func TestFailingCalls(t *testing.T) {
	every, step := []int{5, 31}, 3
	if testkit.Full() {
		every, step = []int{2, 5, 31, 211}, 1
	}
	which := 0
	for _, f := range failing {
		for _, errno := range f.errs {
			for _, n := range every {
				if which++; which%step != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s=%s,%d", f.call, unix.ErrnoName(errno), n),
					func(t *testing.T) {
						on, calls := false, 0
						run(t, f.call, func(args [6]uint64) syscall.Errno {
							if args[5] == markOn || args[5] == markOff {
								on = args[5] == markOn
								return unix.EBADF
							}
							if !on || f.call == "write" && args[2] <= 8 { // Go's poller
								return 0
							}
							if calls++; calls%n != 0 {
								return 0
							}
							return errno
						}, fmt.Sprint(named[f.call]), fmt.Sprint(int(errno)))
					})
			}
		}
	}
}

// markOn and markOff are the last argument of a call that tells the parent to let calls fail, or
// not to.
const markOn, markOff = 0x10a301, 0x10a302

// endured is a life that goes on after errors.
type endured struct {
	life
	nr    uintptr
	errno syscall.Errno
	bad   []error // errors that lie about the failure
	acked [keys]int
	tried [keys][]int // since, without success
}

func newEndured(l life, nr, errno string) (*endured, error) {
	n, err := strconv.Atoi(nr)
	e, err2 := strconv.Atoi(errno)
	return &endured{life: l, nr: uintptr(n), errno: syscall.Errno(e)}, errors.Join(err, err2)
}

func (e *endured) mark(mark uintptr) {
	_, _, _ = syscall.RawSyscall6(e.nr, ^uintptr(0), 0, 0, 0, 0, mark)
}

// live makes the steps of a life twice, and then compares the database with what was acknowledged.
func (e *endured) live() error {
	e.small()
	e.mark(markOn)
	for range 2 {
		if err := e.open(); err != nil {
			e.judge(err)
			continue
		}
		e.put()
		for _, step := range []func() error{e.flush, e.copies, e.ingest, e.follow} {
			e.judge(step())
			e.put()
		}
		e.judge(e.close())
		e.judge(e.export())
		e.judge(e.repair())
	}
	e.mark(markOff)
	return errors.Join(errors.Join(e.bad...), e.open(), e.check(), e.close())
}

func (e *endured) flush() error {
	return errors.Join(e.db.Flush(), e.db.CompactRange(nil, nil))
}

func (e *endured) put() {
	e.writes++
	for i := range keys {
		mode := lsm.NoSync
		if i%50 == 0 {
			mode = lsm.Sync
		}
		err := e.db.Put(key(i), e.value(i, e.writes), mode)
		if err == nil {
			e.acked[i], e.tried[i] = e.writes, nil
			continue
		}
		e.judge(err)
		e.tried[i] = append(e.tried[i], e.writes)
	}
}

// judge notes an error that has the failure's text without its number, or without its sentinel, or
// that takes it for damage or for another program's doing.
func (e *endured) judge(err error) {
	if err == nil || len(e.bad) > 3 {
		return
	}
	sentinel := error(e.errno)
	switch e.errno {
	case unix.ENOSPC, unix.EDQUOT:
		sentinel = lsm.ErrNoSpace
	case unix.ENOMEM:
		sentinel = lsm.ErrNoMemory
	case unix.EMFILE:
		sentinel = lsm.ErrTooManyFiles
	}
	told := errors.Is(err, e.errno) || strings.Contains(err.Error(), e.errno.Error())
	if told && (!errors.Is(err, e.errno) || !errors.Is(err, sentinel)) ||
		errors.Is(err, lsm.ErrCorruption) || errors.Is(err, lsm.ErrDirectoryChanged) {
		e.bad = append(e.bad, fmt.Errorf("wrong: %w", err))
	}
}

// check compares each key with its last acknowledged write, and with the writes that failed since.
func (e *endured) check() error {
	if e.db == nil {
		return nil
	}
	for i := range keys {
		v, err := e.db.Get(key(i), nil)
		ok := err == nil && e.acked[i] > 0 && bytes.Equal(v, e.value(i, e.acked[i])) ||
			errors.Is(err, lsm.ErrNotFound) && e.acked[i] == 0
		for _, w := range e.tried[i] {
			ok = ok || err == nil && bytes.Equal(v, e.value(i, w))
		}
		if !ok {
			return fmt.Errorf("%s, acknowledged %d, is %.20q: %w", key(i), e.acked[i], v, err)
		}
	}
	return nil
}
