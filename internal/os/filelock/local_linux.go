package filelock

import "golang.org/x/sys/unix"

// zfsMagic is the type of a ZFS, which is not in the kernel's sources.
const zfsMagic = 0x2fc12fc1

// IsLocal tells whether the file's pages come from this machine, and from the kernel
// alone. Of file systems that are not known that is not assumed.
func IsLocal(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.BCACHEFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfsMagic:
		return true
	}
	return false
}

// CountsLinks tells whether the file system counts the names of its files, all of them and at once:
// SMB and some FUSE file systems say that each file has one. Tests replace it.
var CountsLinks = IsLocal
