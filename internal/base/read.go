package base

import (
	"errors"
	"io"
)

// ReadChunks reads the first size bytes of r into buf, a piece at a time, and calls f with each.
func ReadChunks(r io.ReaderAt, size int64, buf []byte, f func(b []byte) error) error {
	for off := int64(0); off < size; off += int64(len(buf)) {
		b := buf[:min(size-off, int64(len(buf)))]
		if err := ReadFull(r, b, off); err != nil {
			return err
		}
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

// ReadFull fills p with the bytes of r at off, all of which are there: an end of the file before is
// io.ErrUnexpectedEOF.
func ReadFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
