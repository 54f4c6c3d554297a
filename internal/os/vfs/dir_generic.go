//go:build !unix

package vfs

import "io"

// hold keeps the path, which is absolute. Windows refuses to rename or remove
// a directory in which a file, such as LOCK, is open.
func (o OS) hold(dir string) (FS, io.Closer, error) { return o, nil, nil }
