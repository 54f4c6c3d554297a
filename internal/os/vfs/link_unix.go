//go:build unix

package vfs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// cannotLink tells errors that a copy avoids. File systems without links answer EPERM, as does
// Linux under fs.protected_hardlinks; SELinux, on Android, and AppArmor forbid links with EACCES.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EACCES)
}

// linkAt is linkat(2) of a regular file.
func linkAt(from place, oldName string, to place, newName string) error {
	st, err := statAt(from.fd, from.elem)
	if err == nil && !st.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return pathError("link", oldName, err)
	}
	if st.st.Nlink == 0 { // as some FUSE file systems have it: Linux links no such file
		return linkError(newName, unix.EPERM)
	}
	return linkError(newName, filelock.Again(func() error {
		return unix.Linkat(from.fd, from.elem, to.fd, to.elem, 0)
	}))
}

func linkPath(oldName, newName string) error {
	from, to := place{fd: unix.AT_FDCWD, elem: oldName}, place{fd: unix.AT_FDCWD, elem: newName}
	return base.Classify(linkAt(from, oldName, to, newName))
}

// Link gives a file a second name, within the directory that is held, into it, or
// out of it.
func (h *heldDir) Link(oldName, newName string) error {
	return h.change("link", newName, func(to place) error {
		from, err := h.at("link", oldName)
		if err != nil {
			return err
		}
		defer from.done()
		return linkAt(from, oldName, to, newName)
	})
}
