package seal

import (
	"cmp"
	"errors"
	"io"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	chunkLen  = 2 << 10 // bytes of a chunk before it is sealed; the last one is shorter
	sealedLen = chunkLen + tagLen
	writeLen  = 64 << 10 // what is written at a time

	kindChunk = "sealed chunk"
)

// The turn of a chunk's place: the last chunk of a file is sealed as such, so that a file that is
// cut between two chunks is known.
const (
	more = iota
	last
)

// plainSize is the size of the contents of a sealed file of so many bytes. There is at least one
// chunk, which is empty only if it is alone.
func plainSize(size int64) (int64, error) {
	rest := size - HeaderLen
	n := chunksOf(rest)
	if end := rest - (n-1)*sealedLen; end < tagLen || end == tagLen && n > 1 {
		return 0, base.Corruptf(kindChunk, "the file ends within a tag")
	}
	return rest - n*tagLen, nil
}

// chunksOf is how many chunks so many sealed bytes are.
func chunksOf(sealed int64) int64 { return max((sealed+sealedLen-1)/sealedLen, 1) }

// writer seals a file from front to back. Errors of the file below may come late, as it gathers
// bytes. The last chunk is sealed by Sync, StartSync or Close, and nothing is written after it: a
// place is sealed once.
type writer struct {
	f     vfs.WriteFile
	c     *Sealer
	plain []byte // of the chunk that is not full, or is full and may be the last
	out   []byte // the sealed bytes that were not written
	n     uint64 // chunks that were sealed
	ended bool
	err   error // sticky
}

// Write takes p.
func (w *writer) Write(p []byte) (int, error) {
	if w.ended && w.err == nil {
		w.err = base.Invalidf("a write behind the end of a sealed file")
	}
	taken := 0
	for w.err == nil && len(p) > 0 {
		if len(w.plain) == chunkLen {
			w.seal(w.plain, more)
			w.plain = w.plain[:0]
		}
		n := min(len(p), chunkLen-len(w.plain))
		if n == chunkLen && len(p) > n { // not the last one
			w.seal(p[:n], more)
		} else {
			w.plain = append(w.plain, p[:n]...)
		}
		p, taken = p[n:], taken+n
	}
	return taken, w.err
}

func (w *writer) seal(plain []byte, turn uint32) {
	w.out = w.c.Seal(w.out, plain, w.n, turn, nil)
	w.n++
	if len(w.out) >= writeLen {
		w.flush()
	}
}

func (w *writer) flush() {
	if w.err == nil && len(w.out) > 0 {
		_, w.err = w.f.Write(w.out)
	}
	w.out = w.out[:0]
}

// end seals the last chunk and writes all there is.
func (w *writer) end() error {
	if !w.ended {
		w.ended = true
		w.seal(w.plain, last)
		w.flush()
		w.plain, w.out = nil, nil
	}
	return w.err
}

// Sync makes the file durable, which ends there.
func (w *writer) Sync() error {
	if err := w.end(); err != nil {
		return err
	}
	w.err = w.f.Sync()
	return w.err
}

// StartSync writes the rest and begins to write out the file, which ends there.
func (w *writer) StartSync() error {
	if w.end() == nil {
		w.err = vfs.StartSync(w.f)
	}
	return w.err
}

// Abandon closes the file without writing the rest. It returns the error of an earlier write, too.
func (w *writer) Abandon() error {
	w.ended = true
	return errors.Join(w.err, vfs.Abandon(w.f))
}

// Close closes the file. What was not synced is written all the same.
func (w *writer) Close() error {
	return cmp.Or(w.end(), w.f.Close())
}

// reader opens the chunks of a file.
type reader struct {
	f       vfs.ReadFile
	c       *Opener // its nonce is not used, see scratch
	name    string
	size    int64 // bytes of the contents
	salvage bool
}

// scratch is what one read works in.
type scratch struct {
	c      Opener
	sealed []byte
	plain  [chunkLen]byte
}

var scratches = sync.Pool{New: func() any { return &scratch{sealed: make([]byte, 3*sealedLen)} }}

// readLen bounds the sealed bytes that one read of the file below gets.
const readLen = 128 * sealedLen

// ReadAt reads at off. Every chunk of which bytes are asked for is read and verified whole.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, base.Invalidf("read at offset %d", off)
	}
	want := len(p)
	p = p[:min(int64(want), max(r.size-off, 0))]
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.c.aead = r.c.aead
	n, err := r.read(s, p, off)
	if err == nil && n < want {
		err = io.EOF
	}
	return n, err
}

// read fills p, which lies within the file.
func (r *reader) read(s *scratch, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		first := at / chunkLen
		end := (off + int64(len(p)) + chunkLen - 1) / chunkLen // behind the last chunk
		end = min(end, first+readLen/sealedLen)
		from := first * sealedLen
		to := min(end*sealedLen, r.sealedSize())
		if int64(cap(s.sealed)) < to-from {
			s.sealed = make([]byte, to-from)
		}
		b := s.sealed[:to-from]
		if err := base.ReadFull(r.f, b, HeaderLen+from); err != nil {
			return n, err
		}
		for i := first; i < end; i++ {
			m, err := r.openChunk(s, b[:min(int64(len(b)), sealedLen)], i, p[n:], at-i*chunkLen)
			if err != nil {
				return n, err
			}
			n, at, b = n+m, at+int64(m), b[min(int64(len(b)), sealedLen):]
		}
	}
	return n, nil
}

// sealedSize is the size of all chunks with their tags.
func (r *reader) sealedSize() int64 {
	n := max((r.size+chunkLen-1)/chunkLen, 1)
	return r.size + n*tagLen
}

// openChunk copies the bytes of chunk i from skip on to p.
func (r *reader) openChunk(s *scratch, sealed []byte, i int64, p []byte, skip int64) (int, error) {
	turn := uint32(more)
	if (i+1)*chunkLen >= r.size {
		turn = last
	}
	n := len(sealed) - tagLen
	dst := s.plain[:0]
	if skip == 0 && len(p) >= n {
		dst = p[:0] // opened where it is wanted
	}
	plain, ok := s.c.Open(dst, sealed, uint64(i), turn, nil)
	if !ok {
		if !r.salvage {
			return 0, &base.Corruption{File: r.name, Offset: i * chunkLen, Length: int64(n),
				Kind: kindChunk, Reason: "it is not what was written there", Final: true}
		}
		plain = dst[:n]
		clear(plain)
	}
	if skip == 0 && len(p) >= n {
		return n, nil
	}
	return copy(p, plain[skip:]), nil
}

// verifyEmpty verifies the chunk of a file without contents, which no read does.
func (r *reader) verifyEmpty() error {
	if r.size > 0 {
		return nil
	}
	s := &scratch{c: Opener{part{aead: r.c.aead}}}
	var tag [tagLen]byte
	if err := base.ReadFull(r.f, tag[:], HeaderLen); err != nil {
		return err
	}
	_, err := r.openChunk(s, tag[:], 0, nil, 0)
	return err
}

// Size is the size of the contents.
func (r *reader) Size() int64 { return r.size }

// Prefetch hints.
func (r *reader) Prefetch(off, n int64) {
	from := off / chunkLen * sealedLen
	r.f.Prefetch(HeaderLen+from, (off+n+chunkLen-1)/chunkLen*sealedLen-from)
}

// Sync is that of the file below, if it can.
func (r *reader) Sync() error { return syncRead(r.f) }

// Close closes the file.
func (r *reader) Close() error { return r.f.Close() }
