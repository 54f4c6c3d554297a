package directio

import (
	"github.com/loamdb/loam/internal/os/vfs"
)

// Reader is a vfs.ReadFile of aligned reads. Prefetch reads into a second buffer meanwhile.
type Reader struct {
	vfs.ReadFile
	file  file
	bufs  [2]buffer // of ReadAt and of Prefetch
	off   int64     // where bufs[1] begins
	ahead transfer
}

// NewReader returns a Reader of f, which nobody else uses and which it closes. It fails with
// errors.ErrUnsupported where the file system has no direct I/O; f is then as it was.
func NewReader(f vfs.ReadFile) (*Reader, error) {
	r := &Reader{ReadFile: f}
	if err := r.file.begin(f); err != nil {
		return nil, err
	}
	return r, nil
}

// pages extends [off, end) to whole pages.
func pages(off, end int64) (int64, int64) {
	return off &^ (Align - 1), (end + Align - 1) &^ (Align - 1)
}

// ReadAt reads at off.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	got := r.take(p, off)
	if got == len(p) {
		return got, nil
	}
	n, err := r.read(p[got:], off+int64(got))
	return got + n, err
}

// take copies what Prefetch has read of p at off.
func (r *Reader) take(p []byte, off int64) int {
	if r.ahead.done == nil || off < r.off {
		return 0
	}
	n, _ := r.ahead.wait() // an error comes again where the bytes are missed
	if off >= r.off+int64(n) {
		return 0
	}
	return copy(p, r.bufs[1].b[off-r.off:n])
}

// read reads p at off.
func (r *Reader) read(p []byte, off int64) (int, error) {
	from, end := pages(off, off+int64(len(p)))
	b := &r.bufs[0]
	if err := b.alloc(int(end - from)); err != nil {
		return 0, err
	}
	n, err := r.move(b.b[:end-from], from)
	n = max(n-int(off-from), 0)
	if n >= len(p) {
		return copy(p, b.b[off-from:]), nil
	}
	return copy(p[:n], b.b[off-from:]), err
}

// move reads whole pages. What direct I/O refuses comes through the page cache. At the end
// of the file it is short, with an error.
func (r *Reader) move(b []byte, off int64) (int, error) {
	n, err := r.ReadFile.ReadAt(b, off)
	if err == nil || off+int64(n) >= r.Size() || !refused(err) {
		return n, err
	}
	if err := r.file.end(); err != nil {
		return n, err
	}
	m, err := r.ReadFile.ReadAt(b[n:], off+int64(n))
	return n + m, err
}

// Prefetch begins to read [off, off+n).
func (r *Reader) Prefetch(off, n int64) {
	if r.ahead.done != nil {
		return // it was not asked for yet
	}
	from, end := pages(off, off+n)
	b := &r.bufs[1]
	if b.alloc(int(end-from)) != nil {
		return // ReadAt reports it
	}
	r.off = from
	r.ahead.start(func() (int, error) { return r.move(b.b[:end-from], from) })
}

// Close closes the file.
func (r *Reader) Close() error {
	_, _ = r.ahead.wait()
	r.bufs[0].free()
	r.bufs[1].free()
	return r.ReadFile.Close()
}
