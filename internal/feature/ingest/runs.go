package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// A run is a file of sorted entries, each key once, as frames:
//
//	length u32 | crc32c u32 | entries
//
// An entry is two varints, the length of the key, and twice that of the value, plus one if the
// value is packed; then the bytes of both. Values are packed as the tables will have them
// (colblk.Packer): the run takes less memory of the page cache, and they need not be packed at the
// end.
//
// A run has the name of a table, so that the next opening deletes what a crash leaves; package
// owner knows it by the beginning of its first frame. It is never synced.
const (
	frameHeader = 8
	frameSize   = 256 << 10
	// maxMarks bounds the frames of a run whose first keys are kept in memory.
	maxMarks = 4096
)

// run is a run that was written.
type run struct {
	name   string
	size   int64
	prefix prefix.Prefix
	marks  []mark // ascending; the first frame is one of them
}

// mark is where a frame begins, and the first key in it.
type mark struct {
	off int64
	key []byte
}

// runWriter writes a run.
type runWriter struct {
	f     vfs.WriteFile
	r     *run
	buf   []byte // the frame begun
	pack  *colblk.Packer
	every int // a mark for every so many frames
	skip  int // frames until the next mark
	stop  func() error
}

func newRun(db store.Host, stop func() error) (*runWriter, error) {
	place := db.Place()
	_, name := db.NewTable()
	f, err := place.FS.Create(filepath.Join(place.Dir, name))
	if err != nil {
		return nil, err
	}
	w := &runWriter{f: f, r: &run{name: name}, every: 1, stop: stop,
		buf: make([]byte, frameHeader, frameSize+64<<10)}
	return w, nil
}

// add appends an entry. A value that is not packed is packed if the writer packs.
func (w *runWriter) add(key []byte, codec base.Codec, value []byte) error {
	if w.pack != nil && codec == base.CodecRaw {
		value, codec = w.pack.Pack(value)
	}
	packed := uint64(0)
	if codec == base.CodecShort {
		packed = 1
	}
	if len(w.buf) == frameHeader {
		if w.skip--; w.skip < 0 {
			w.mark(key)
		}
	}
	w.buf = binary.AppendUvarint(w.buf, uint64(len(key)))
	w.buf = binary.AppendUvarint(w.buf, uint64(len(value))<<1|packed)
	w.buf = append(append(w.buf, key...), value...)
	if len(w.buf) >= frameSize {
		return w.flush()
	}
	return nil
}

// mark notes where the next frame begins. Of too many marks every second one is dropped.
func (w *runWriter) mark(key []byte) {
	w.r.marks = append(w.r.marks, mark{w.r.size, append([]byte{}, key...)})
	if len(w.r.marks) == maxMarks {
		n := 0
		for i := 0; i < maxMarks; i += 2 {
			w.r.marks[n] = w.r.marks[i]
			n++
		}
		clear(w.r.marks[n:])
		w.r.marks = w.r.marks[:n]
		w.every *= 2
	}
	w.skip = w.every - 1
}

func (w *runWriter) flush() error {
	if err := w.stop(); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(w.buf)-frameHeader))
	binary.LittleEndian.PutUint32(w.buf[4:], base.CRCUpdate(0, w.buf[frameHeader:]))
	if _, err := w.f.Write(w.buf); err != nil {
		return err
	}
	w.r.size += int64(len(w.buf))
	w.buf = w.buf[:frameHeader]
	return nil
}

// finish writes the rest and closes the file.
func (w *runWriter) finish() (*run, error) {
	var err error
	if len(w.buf) > frameHeader {
		err = w.flush()
	}
	return w.r, errors.Join(err, w.f.Close())
}

// prefetchAhead is how many entries of a sorted chunk are fetched into the processor's cache ahead
// of the one that is read.
const prefetchAhead = 8

// stream is a sorted sequence of entries that a merge reads: a run, or a chunk.
type stream struct {
	key, value []byte // the current entry
	codec      base.Codec
	ab         uint64
	newer      int // of two entries with one key, that of the stream with the larger newer counts

	cmp    *base.Comparer
	prefix prefix.Prefix

	// A run.
	run  *run
	f    vfs.ReadFile
	off  int64  // of the next frame
	buf  []byte // the frame
	rest []byte // of it

	// A chunk.
	c      *chunk
	at, to int
}

// next moves to the next entry; false at the end.
func (s *stream) next() (bool, error) {
	if s.c != nil {
		if s.at == s.to {
			return false, nil
		}
		if ahead := s.at + prefetchAhead; ahead < s.to {
			offheap.Prefetch(unsafe.Pointer(&s.c.arena[s.c.pairs[ahead].Off]), 128)
		}
		s.key, s.value = s.c.entry(s.c.pairs[s.at].Off)
		s.at++
	} else {
		for len(s.rest) == 0 {
			if s.off == s.run.size {
				return false, nil
			}
			if err := s.frame(); err != nil {
				return false, err
			}
		}
		k, n := binary.Uvarint(s.rest)
		v, m := binary.Uvarint(s.rest[n:])
		b := s.rest[n+m:]
		s.codec = base.CodecRaw
		if v&1 != 0 {
			s.codec = base.CodecShort
		}
		v >>= 1
		s.key, s.value, s.rest = b[:k:k], b[k:k+v:k+v], b[k+v:]
	}
	s.ab = s.prefix.Abbrev(s.cmp, s.key)
	return true, nil
}

// frame reads the next frame of a run.
func (s *stream) frame() error {
	damaged := func(err error) error {
		if err == nil || errors.Is(err, io.EOF) {
			err = base.Corruptf("sorted run", "what was written is not what is read").At(
				s.run.name, s.off, 0)
		}
		return fmt.Errorf("reading %s: %w", s.run.name, err)
	}
	var head [frameHeader]byte
	if n, err := s.f.ReadAt(head[:], s.off); n < len(head) {
		return damaged(err)
	}
	size := int(binary.LittleEndian.Uint32(head[:]))
	if int64(size) > s.run.size-s.off-frameHeader {
		return damaged(nil)
	}
	if cap(s.buf) < size {
		s.buf = make([]byte, size, max(size, frameSize+64<<10))
	}
	s.buf = s.buf[:size]
	if n, err := s.f.ReadAt(s.buf, s.off+frameHeader); n < size {
		return damaged(err)
	}
	if base.CRCUpdate(0, s.buf) != binary.LittleEndian.Uint32(head[4:]) {
		return damaged(nil)
	}
	s.off += int64(size) + frameHeader
	s.f.Prefetch(s.off, frameSize)
	s.rest = s.buf
	return nil
}

// begin moves to the first entry at or behind lower; nil is the first of all.
func (s *stream) begin(lower []byte) (bool, error) {
	if s.c != nil {
		s.to = s.c.n
		if lower != nil {
			s.at = s.c.seek(lower)
		}
		return s.next()
	}
	if lower != nil {
		for _, m := range s.run.marks {
			if s.cmp.Cmp(m.key, lower) > 0 {
				break
			}
			s.off = m.off
		}
	}
	for {
		ok, err := s.next()
		if !ok || err != nil || lower == nil || s.cmp.Cmp(s.key, lower) >= 0 {
			return ok, err
		}
	}
}

// merge reads streams together: of each key the newest entry.
type merge struct {
	cmp  *base.Comparer
	heap []*stream // by the current entries
}

func (m *merge) less(a, b *stream) bool {
	if a.ab != b.ab {
		return a.ab < b.ab
	}
	if c := m.cmp.Cmp(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.newer > b.newer
}

// push adds a stream that has an entry.
func (m *merge) push(s *stream) {
	m.heap = append(m.heap, s)
	for i := len(m.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !m.less(m.heap[i], m.heap[up]) {
			break
		}
		m.heap[i], m.heap[up] = m.heap[up], m.heap[i]
		i = up
	}
}

// settle puts the first stream, whose entry is another one now, where it belongs.
func (m *merge) settle() {
	h := m.heap
	s := h[0]
	i := 0
	for {
		kid := 2*i + 1
		if kid >= len(h) {
			break
		}
		if kid+1 < len(h) && m.less(h[kid+1], h[kid]) {
			kid++
		}
		if !m.less(h[kid], s) {
			break
		}
		h[i] = h[kid]
		i = kid
	}
	h[i] = s
}

// advance moves the first stream on.
func (m *merge) advance() error {
	ok, err := m.heap[0].next()
	if err != nil {
		return err
	}
	if !ok {
		n := len(m.heap) - 1
		m.heap[0] = m.heap[n]
		m.heap = m.heap[:n]
		if n == 0 {
			return nil
		}
	}
	m.settle()
	return nil
}

// each calls f with the entries before upper, nil for all.
func (m *merge) each(upper []byte, f func(key []byte, codec base.Codec, value []byte) error) error {
	var last []byte
	for len(m.heap) > 0 {
		s := m.heap[0]
		if upper != nil && m.cmp.Cmp(s.key, upper) >= 0 {
			return nil
		}
		if err := f(s.key, s.codec, s.value); err != nil {
			return err
		}
		if len(m.heap) == 1 {
			if err := m.advance(); err != nil {
				return err
			}
			continue
		}
		// The older entries of the key come next, if there are any.
		ab := s.ab
		last = append(last[:0], s.key...)
		for err := m.advance(); ; err = m.advance() {
			if err != nil {
				return err
			}
			if len(m.heap) == 0 || m.heap[0].ab != ab || m.cmp.Cmp(m.heap[0].key, last) != 0 {
				break
			}
		}
	}
	return nil
}
