//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Reach calls f with a path of the file elem in the held directory, for system calls that take no
// descriptor of a directory. It fails with errors.ErrUnsupported where the directory is not held by
// a descriptor.
func (d *Dir) Reach(elem string, f func(path string) error) error {
	h, ok := d.FS.(*heldDir)
	if !ok {
		return fmt.Errorf("%w: the directory is not one of the operating system's",
			errors.ErrUnsupported)
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.fd < 0 {
		return fs.ErrClosed
	}
	return f(filepath.Join(DescriptorPath(h.fd, h.path), elem))
}

// DescriptorPath is a path that leads to the open directory fd, whatever its length and name; where
// the system has none, it is the path that the directory was opened by.
func DescriptorPath(fd int, path string) string {
	if p := fmt.Sprint("/proc/self/fd/", fd); exists(p) {
		return p
	}
	return path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
