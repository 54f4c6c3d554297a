//go:build unix

package fileid

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// Of returns the ID of a file; ok is false where its file system has none.
func Of(info fs.FileInfo) (id ID, ok bool) {
	switch st := info.Sys().(type) {
	case *unix.Stat_t:
		return ID{uint64(st.Dev), uint64(st.Ino)}, true
	case *syscall.Stat_t:
		return ID{uint64(st.Dev), uint64(st.Ino)}, true
	}
	return ID{}, false
}
