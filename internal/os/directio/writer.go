package directio

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// writeLen is what is written at once.
const writeLen = 1 << 20

// Writer is a vfs.WriteFile of aligned writes. While one buffer is written, the other one is
// filled.
type Writer struct {
	inner vfs.WriteFile
	file  file
	bufs  [2]buffer
	fill  int // the buffer that is filled
	n     int // bytes in it
	write transfer
	err   error // sticky
}

// NewWriter returns a Writer of f, which is empty and which it closes. It fails with
// errors.ErrUnsupported where the file system has no direct I/O; f is then as it was.
func NewWriter(f vfs.WriteFile) (*Writer, error) {
	w := &Writer{inner: f}
	if err := w.file.begin(f); err != nil {
		return nil, err
	}
	for i := range w.bufs {
		if err := w.bufs[i].alloc(writeLen); err != nil {
			w.free()
			return nil, errors.Join(err, w.file.end())
		}
	}
	return w, nil
}

func (w *Writer) free() {
	w.bufs[0].free()
	w.bufs[1].free()
}

// Write takes p, which reaches the file when a buffer is full: errors come late.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err == nil && w.bufs[w.fill].b == nil {
		w.err = base.ErrClosed
	}
	taken := 0
	for w.err == nil && len(p) > 0 {
		n := copy(w.bufs[w.fill].b[w.n:], p)
		w.n, p, taken = w.n+n, p[n:], taken+n
		if w.n == writeLen {
			w.start()
		}
	}
	return taken, w.err
}

// start writes the buffer that was filled, after the one before.
func (w *Writer) start() {
	if w.wait() != nil {
		return
	}
	p := w.bufs[w.fill].b[:w.n]
	w.fill, w.n = 1-w.fill, 0
	w.write.start(func() (int, error) { return w.move(p) })
}

func (w *Writer) wait() error {
	if _, err := w.write.wait(); w.err == nil {
		w.err = err
	}
	return w.err
}

// move writes p. What direct I/O refuses goes through the page cache: on some file systems
// all of it, and elsewhere the rest after a short write.
func (w *Writer) move(p []byte) (int, error) {
	n, err := w.inner.Write(p)
	if err == nil || !refused(err) {
		return n, err
	}
	if err := w.file.end(); err != nil {
		return n, err
	}
	m, err := w.inner.Write(p[n:])
	return n + m, err
}

// flush writes all there is, the last part of a page through the page cache.
func (w *Writer) flush() error {
	if w.wait() != nil || w.n == 0 {
		return w.err
	}
	p := w.bufs[w.fill].b[:w.n]
	whole := w.n &^ (Align - 1)
	w.n = 0
	if whole > 0 {
		_, w.err = w.move(p[:whole])
	}
	if w.err == nil && whole < len(p) {
		if w.err = w.file.end(); w.err == nil {
			_, w.err = w.inner.Write(p[whole:])
		}
	}
	return w.err
}

// StartSync writes all there is.
func (w *Writer) StartSync() error {
	defer w.free()
	if w.flush() == nil {
		w.err = vfs.StartSync(w.inner)
	}
	return w.err
}

// Sync makes what was written durable.
func (w *Writer) Sync() error {
	if w.flush() == nil {
		w.err = w.inner.Sync()
	}
	return w.err
}

// Close closes the file. Unsynced bytes may not have been written.
func (w *Writer) Close() error {
	_, _ = w.write.wait() // what was abandoned, or Sync has said it
	w.free()
	return w.inner.Close()
}
