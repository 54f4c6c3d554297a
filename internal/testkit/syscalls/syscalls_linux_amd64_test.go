package syscalls

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/testkit"
)

// named are the numbers of system calls.
var named = map[string]int{
	"close": unix.SYS_CLOSE, "fadvise64": unix.SYS_FADVISE64, "fallocate": unix.SYS_FALLOCATE,
	"fcntl": unix.SYS_FCNTL, "fdatasync": unix.SYS_FDATASYNC, "flock": unix.SYS_FLOCK,
	"fstat": unix.SYS_FSTAT, "fstatfs": unix.SYS_FSTATFS, "fsync": unix.SYS_FSYNC,
	"ftruncate": unix.SYS_FTRUNCATE, "getdents64": unix.SYS_GETDENTS64, "linkat": unix.SYS_LINKAT,
	"lseek": unix.SYS_LSEEK, "madvise": unix.SYS_MADVISE, "mincore": unix.SYS_MINCORE,
	"mkdirat": unix.SYS_MKDIRAT, "mmap": unix.SYS_MMAP, "mremap": unix.SYS_MREMAP,
	"newfstatat": unix.SYS_NEWFSTATAT, "openat": unix.SYS_OPENAT,
	"pread64": unix.SYS_PREAD64, "prlimit64": unix.SYS_PRLIMIT64, "pwrite64": unix.SYS_PWRITE64,
	"renameat": unix.SYS_RENAMEAT, "sync_file_range": unix.SYS_SYNC_FILE_RANGE,
	"unlinkat": unix.SYS_UNLINKAT, "write": unix.SYS_WRITE,
}

// interrupted are the calls that are made again after EINTR.
var interrupted = []string{"fallocate", "fcntl", "fdatasync", "flock", "fstat", "fstatfs", "fsync",
	"ftruncate", "getdents64", "linkat", "lseek", "mkdirat", "newfstatat", "openat", "pread64",
	"pwrite64", "renameat", "unlinkat", "write"}

// dispensable are errors of calls without which a database works: file systems, old kernels and
// sandboxes do not have them, or refuse them.
var dispensable = []struct {
	call string
	errs []syscall.Errno
	of   func(args [6]uint64) bool // nil: all calls
}{
	{"fadvise64", []syscall.Errno{unix.ENOSYS, unix.EPERM}, nil},
	{"fallocate", []syscall.Errno{unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EINTR}, nil},
	{"fcntl", []syscall.Errno{unix.ENOSYS, unix.EOPNOTSUPP}, func(args [6]uint64) bool {
		return args[1] == unix.F_SETLK
	}},
	{"flock", []syscall.Errno{unix.ENOSYS, unix.EOPNOTSUPP}, nil},
	{"fstatfs", []syscall.Errno{unix.ENOSYS, unix.EPERM}, nil},
	{"fsync", []syscall.Errno{unix.EINVAL, unix.EOPNOTSUPP}, nil}, // of directories
	{"linkat", []syscall.Errno{unix.ENOSYS, unix.EPERM, unix.EXDEV, unix.EOPNOTSUPP,
		unix.EACCES}, nil},
	{"lseek", []syscall.Errno{unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP}, nil},
	{"madvise", []syscall.Errno{unix.ENOSYS, unix.EINVAL}, nil},
	{"mincore", []syscall.Errno{unix.ENOSYS, unix.EPERM}, nil},
	{"mmap", []syscall.Errno{unix.ENODEV, unix.ENOMEM, unix.EPERM}, func(args [6]uint64) bool {
		return args[3]&unix.MAP_ANON == 0
	}},
	{"mmap", []syscall.Errno{unix.ENOMEM, unix.EINVAL, unix.EEXIST}, func(args [6]uint64) bool {
		return args[3]&unix.MAP_FIXED_NOREPLACE != 0
	}},
	{"mremap", []syscall.Errno{unix.ENOSYS, unix.ENOMEM}, nil},
	{"prlimit64", []syscall.Errno{unix.ENOSYS, unix.EPERM}, nil},
	{"sync_file_range", []syscall.Errno{unix.ENOSYS, unix.EPERM}, nil},
}

func run(t *testing.T, call string, decide Decide, args ...string) {
	t.Helper()
	nr, ok := named[call]
	if !ok {
		t.Fatal("no number")
	}
	formats := []string{"native", "leveldb"}
	if !testkit.Full() {
		formats = formats[:1]
	}
	for _, format := range formats {
		err := Run(nr, decide, append([]string{format, t.TempDir()}, args...)...)
		if errors.Is(err, ErrNoFilter) {
			t.Skip(err)
		}
		if err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// TestInterruptedCalls: a signal interrupts every second call of a kind, and nothing fails.
func TestInterruptedCalls(t *testing.T) {
	for _, call := range interrupted {
		t.Run(call, func(t *testing.T) {
			calls := 0
			run(t, call, func(args [6]uint64) syscall.Errno {
				if call == "fcntl" && args[1] != unix.F_SETLK { // it never waits
					return 0
				}
				if calls++; calls%2 == 0 {
					return 0
				}
				return unix.EINTR
			})
		})
	}
}

// TestDispensableCalls: a kind of calls fails from the beginning on, and nothing else does.
func TestDispensableCalls(t *testing.T) {
	for _, d := range dispensable {
		for _, err := range d.errs {
			t.Run(d.call+"="+unix.ErrnoName(err), func(t *testing.T) {
				run(t, d.call, func(args [6]uint64) syscall.Errno {
					if d.of != nil && !d.of(args) {
						return 0
					}
					return err
				})
			})
		}
	}
}
