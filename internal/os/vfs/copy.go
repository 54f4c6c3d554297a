package vfs

import (
	"cmp"

	"github.com/loamdb/loam/internal/base"
)

// CopyChunk is how many bytes Copy reads and writes at a time.
const CopyChunk = 1 << 20

// WholeFile is a size for Copy that is that of the file.
const WholeFile = -1

// Copy makes a file of the first size bytes of another one, durable but for its name. It calls step
// with each piece before the piece is written; an error of step ends the copy. A file that is not
// whole stays.
func Copy(from FS, oldName string, to FS, newName string, size int64,
	step func(piece []byte) error) error {
	in, err := from.Open(oldName)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.Create(newName)
	if err != nil {
		return err
	}
	if size == WholeFile {
		size = in.Size()
	}
	off := int64(0)
	buf := make([]byte, min(size, CopyChunk))
	err = base.ReadChunks(in, size, buf, func(b []byte) error {
		off += int64(len(b))
		in.Prefetch(off, CopyChunk)
		if err := step(b); err != nil {
			return err
		}
		_, err := out.Write(b)
		return err
	})
	if err == nil {
		err = out.Sync()
	}
	return cmp.Or(err, out.Close())
}
