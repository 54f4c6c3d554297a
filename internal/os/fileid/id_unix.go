//go:build unix

package fileid

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/vfs"
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

// ofOpen returns the ID of an open file.
func ofOpen(f any) (id ID, ok bool) {
	fd, ok := vfs.Descriptor(f)
	if !ok {
		return ID{}, false
	}
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil {
		return ID{}, false
	}
	return ID{uint64(st.Dev), uint64(st.Ino)}, true
}
