package vfs

import "golang.org/x/sys/unix"

// Linux keeps flock and fcntl locks apart, and LevelDB takes one while
// goleveldb takes the other: both are taken. The fcntl lock is one of the open
// file description, which conflicts with classic ones but does not vanish
// when some other descriptor of the file is closed; kernels without it (before
// 3.15) get the classic one.

// Magic numbers of file systems that turn flock into a byte-range lock, which
// would then meet our own.
const (
	magicNFS  = 0x6969
	magicSMB1 = 0xff534d42
	magicSMB2 = 0xfe534d42
)

func takeLocks(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	magic := uint32(st.Type)
	if magic != magicNFS && magic != magicSMB1 && magic != magicSMB2 {
		if err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return err
		}
	}
	return fcntlLock(fd, unix.F_WRLCK)
}

func dropLocks(fd int) {
	_ = fcntlLock(fd, unix.F_UNLCK)
	_ = flock(fd, unix.LOCK_UN)
}

// fcntlLock sets the lock on the whole file, whatever its size will be.
func fcntlLock(fd int, how int16) error {
	lk := unix.Flock_t{Type: how}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk)
	if err == unix.EINVAL {
		lk = unix.Flock_t{Type: how}
		err = unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &lk)
	}
	return err
}
