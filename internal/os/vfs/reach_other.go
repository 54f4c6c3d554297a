//go:build !unix

package vfs

import (
	"errors"
	"fmt"
)

// Reach fails: directories are not held by descriptors.
func (d *Dir) Reach(string, func(path string) error) error {
	return fmt.Errorf("%w on this system", errors.ErrUnsupported)
}
