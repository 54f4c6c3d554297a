package filelock

import "golang.org/x/sys/unix"

// IsLocal tells whether the file's pages come from this machine, and from the kernel
// alone.
func IsLocal(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil || st.Flags&unix.MNT_LOCAL == 0 {
		return false
	}
	switch unix.ByteSliceToString(st.Fstypename[:]) {
	case "apfs", "hfs":
		return true
	}
	return false
}
