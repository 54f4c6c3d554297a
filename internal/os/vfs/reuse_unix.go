//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/filelock"
)

// reuseAt opens the regular file of one place, which has no other name, and renames it to
// another that is free. Nothing is renamed if it fails.
func reuseAt(from place, oldName string, to place, newName string) (*os.File, int64, error) {
	fd, err := openAt(from.fd, from.elem, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, pathError("reuse", oldName, err)
	}
	var st unix.Stat_t
	if err = filelock.Stat(fd, &st); err == nil {
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			err = ErrNotRegular
		case st.Nlink != 1 || !filelock.CountsLinks(fd):
			err = errors.ErrUnsupported
		default:
			err = unix.SetNonblock(fd, false)
		}
	}
	if err == nil {
		if _, taken := statAt(to.fd, to.elem); taken != unix.ENOENT {
			err = fs.ErrExist
		}
	}
	if err == nil {
		err = filelock.Again(func() error {
			return unix.Renameat(from.fd, from.elem, to.fd, to.elem)
		})
	}
	if err != nil {
		unix.Close(fd)
		return nil, 0, pathError("reuse", oldName, err)
	}
	return os.NewFile(uintptr(fd), newName), st.Size, nil
}

func reusePath(oldName, newName string) (*os.File, int64, error) {
	from, to := place{fd: unix.AT_FDCWD, elem: oldName}, place{fd: unix.AT_FDCWD, elem: newName}
	f, size, err := reuseAt(from, oldName, to, newName)
	return f, size, base.Classify(err)
}

// ReuseLog makes an old log the next one, within the directory that is held.
func (h *heldDir) ReuseLog(oldName, newName string, ahead int64) (Log, int64, error) {
	var f *os.File
	var size int64
	var in *heldDir
	err := h.change("reuse", newName, func(to place) error {
		in = to.in
		from, err := h.at("reuse", oldName)
		if err != nil {
			return err
		}
		defer from.done()
		f, size, err = reuseAt(from, oldName, to, newName)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if in == nil {
		return reusedLog(f, ahead, size, h.PlainLog), size, nil
	}
	l, err := in.register(f, newName)
	if err != nil {
		return nil, 0, err
	}
	return &heldLog{reusedLog(f, ahead, size, h.PlainLog), f, l}, size, nil
}
