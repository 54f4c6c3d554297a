//go:build unix

package backup

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// identify returns the identity of a file; zero if it is not known.
func identify(info fs.FileInfo) (id identity) {
	switch st := info.Sys().(type) {
	case *unix.Stat_t:
		id.dev, id.ino = uint64(st.Dev), uint64(st.Ino)
	case *syscall.Stat_t:
		id.dev, id.ino = uint64(st.Dev), uint64(st.Ino)
	default:
		return id
	}
	id.modified = info.ModTime().UnixNano()
	return id
}
