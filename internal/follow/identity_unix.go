//go:build unix

package follow

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID tells files apart.
func fileID(info fs.FileInfo) (dev, ino uint64, known bool) {
	switch st := info.Sys().(type) {
	case *syscall.Stat_t: // of package os
		return uint64(st.Dev), uint64(st.Ino), true
	case *unix.Stat_t: // of vfs.OpenDir
		return uint64(st.Dev), uint64(st.Ino), true
	}
	return 0, 0, false
}
