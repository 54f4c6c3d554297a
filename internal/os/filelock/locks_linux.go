package filelock

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Linux keeps flock and fcntl locks apart, and LevelDB takes one while
// goleveldb takes the other: both are taken.
//
// The fcntl lock is a classic one: it belongs to the process, so that a forked
// child does not keep it when the process has died. It is lost when anything in
// the process closes another descriptor of the file; Renew takes it again.
//
// A flock lock belongs to the open file, which a forked child shares. If it is
// refused although the fcntl lock is free, the process that took it may be dead;
// then it guards nothing, and the database opens without it. Renew takes it as
// soon as the child has ended.

// Magic numbers of file systems that turn flock into a byte-range lock, which
// would then meet our own.
const (
	magicNFS  = 0x6969
	magicSMB1 = 0xff534d42
	magicSMB2 = 0xfe534d42
)

// Held is what Take took of a file. One of the two locks is enough against other processes of Loam:
// all of them get the same answers from the file system.
type Held struct {
	fcntl    bool
	orphaned bool // the flock lock is to be had later
}

// Take takes the locks of an open file. Where the file system has neither, errors.Is(err,
// errors.ErrUnsupported) holds.
func Take(fd int, shared bool) (Held, error) {
	err := fcntlLock(fd, shared)
	if err != nil && !unsupported(err) {
		return Held{}, err
	}
	h := Held{fcntl: err == nil}
	if h.fcntl && isByteRange(fd) {
		return h, nil
	}
	ferr := flock(fd, shared)
	switch {
	case ferr == nil:
	case ferr == unix.EWOULDBLOCK && h.fcntl && orphaned(fd):
		h.orphaned = true
	case ferr == unix.EWOULDBLOCK && h.fcntl:
		// The file system may turn flock into an fcntl lock, with another owner.
		Drop(fd)
		if ferr = flock(fd, shared); ferr == nil {
			h.fcntl = fcntlLock(fd, shared) == nil
		}
		return h, ferr
	case !unsupported(ferr):
		return Held{}, ferr
	case !h.fcntl:
		return Held{}, errNoLocks{err}
	case ferr == unix.ENOLCK: // there may be one for another process
		return Held{}, ferr
	}
	return h, nil
}

// isByteRange reports whether flock takes a byte-range lock of the file. Where the file system is
// unknown it may, and then meets our own lock.
func isByteRange(fd int) bool {
	var st unix.Statfs_t
	err := Again(func() error { return unix.Fstatfs(fd, &st) })
	magic := uint32(st.Type)
	return err == nil && (magic == magicNFS || magic == magicSMB1 || magic == magicSMB2)
}

// Renew takes again the lock that can be lost, and the one that could not be had. A shortage in the
// kernel is no failure: the lock stays as it is.
func (h *Held) Renew(fd int, shared bool) error {
	if h.orphaned {
		h.orphaned = flock(fd, shared) != nil
	}
	if !h.fcntl {
		return nil
	}
	err := fcntlLock(fd, shared)
	if err == unix.ENOLCK || err == unix.ENOMEM {
		err = nil
	}
	return err
}

// Holder is the process that has the fcntl lock of an open file, 0 if none has it that this
// one can name: goleveldb takes a flock lock, and another PID namespace has other numbers.
func Holder(fd int) int {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if unix.FcntlFlock(uintptr(fd), unix.F_GETLK, &lk) != nil || lk.Type == unix.F_UNLCK {
		return 0
	}
	return int(lk.Pid)
}

// Drop gives the locks back.
func Drop(fd int) {
	lk := unix.Flock_t{Type: unix.F_UNLCK}
	_ = setLock(fd, &lk)
	_ = Again(func() error { return flockCall(fd, unix.LOCK_UN) })
}

// fcntlLock sets the lock on the whole file, whatever its size will be.
func fcntlLock(fd int, shared bool) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if shared {
		lk.Type = unix.F_RDLCK
	}
	return setLock(fd, &lk)
}

func setLock(fd int, lk *unix.Flock_t) error {
	return Again(func() error { return fcntlCall(uintptr(fd), unix.F_SETLK, lk) })
}

// fcntlCall is fcntl(2) of locks. Tests replace it.
var fcntlCall = unix.FcntlFlock

// orphaned reports whether all processes that took a flock lock of the file
// are dead, so that children that they forked hold it. The kernel lists each
// lock with the process that took it. In doubt the answer is false.
func orphaned(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	list, err := readProc("/proc/locks")
	if err != nil {
		return false
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)),
		st.Ino)
	found := false
	for line := range bytes.Lines(list) {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF
		f := bytes.Fields(line)
		if len(f) < 6 || string(f[1]) != "FLOCK" || string(f[5]) != file {
			continue
		}
		pid, err := strconv.Atoi(string(f[4]))
		if err != nil || pid <= 0 || alive(pid) {
			return false
		}
		found = true
	}
	return found
}

// readProc reads a file of the kernel's, see openDirFD.
func readProc(name string) (b []byte, err error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for chunk := make([]byte, 16<<10); ; {
		n, err := unix.Read(fd, chunk)
		switch {
		case err == unix.EINTR:
		case err != nil || n <= 0:
			return b, err
		default:
			b = append(b, chunk[:n]...)
		}
	}
}

// alive reports whether a process may still hold files: one that waits to be
// reaped does not.
func alive(pid int) bool {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return false
	}
	stat, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// pid (command) state ...
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 || end+2 >= len(stat) {
		return true
	}
	if stat[end+2] != 'Z' && stat[end+2] != 'X' {
		return true
	}
	// The first thread may have ended before the others.
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/task", pid), unix.O_RDONLY|unix.O_DIRECTORY|
		unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	dir := os.NewFile(uintptr(fd), "task") // os.Open would start Go's poller
	defer dir.Close()
	threads, err := dir.Readdirnames(2)
	return err == nil && len(threads) > 1
}
