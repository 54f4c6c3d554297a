//go:build unix

package follow

import (
	"io/fs"
	"syscall"
)

// fileID tells files apart.
func fileID(info fs.FileInfo) (dev, ino uint64, known bool) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), uint64(st.Ino), true
	}
	return 0, 0, false
}
