//go:build !unix

package vfs

import (
	"errors"
	"os"
	"syscall"

	"github.com/loamdb/loam/internal/base"
)

// Codes of Windows that a copy avoids: file systems without links answer that the
// function does not exist.
const (
	errInvalidFunction = syscall.Errno(1)
	errNotSameDevice   = syscall.Errno(17)
	errTooManyLinks    = syscall.Errno(1142)
)

func cannotLink(err error) bool {
	return errors.Is(err, errInvalidFunction) || errors.Is(err, errNotSameDevice) ||
		errors.Is(err, errTooManyLinks)
}

func linkPath(oldName, newName string) error {
	st, err := os.Lstat(oldName)
	if err == nil && !st.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return base.Classify(pathError("link", oldName, err))
	}
	return base.Classify(linkError(newName, os.Link(oldName, newName)))
}
