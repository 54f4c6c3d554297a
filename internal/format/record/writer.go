package record

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	// flushAt bounds the framing buffer: a record whose frames are larger
	// reaches the log in several appends.
	flushAt = 1 << 20
	// keepBuf is the largest buffer that is kept from one record to the next.
	keepBuf = 2 * flushAt
)

// Writer appends records to a log, in LevelDB's framing unless Begin is called. The
// first error of the log ends its use, unless Cut removes what a failed Append left in
// the file.
type Writer struct {
	log     vfs.Log
	buf     []byte
	size    atomic.Int64 // bytes appended
	durable atomic.Int64 // bytes of them that a Sync has made durable
	err     atomic.Pointer[error]
	one     [1][]byte // for Append, so that it does not allocate

	// The appender's.
	whole  int64  // where the last whole record ends
	torn   bool   // err is that of an Append
	header int    // length of a chunk's header
	chain  chain  // if header is chainHeaderLen
	linked uint32 // chain.previous at whole

	keys   sealing      // nil: the log is clear
	cipher *seal.Sealer // nil: so is what follows, or the log has no chunk yet
	cuts   uint32       // calls of Cut
}

// NewWriter returns a writer to an empty log.
func NewWriter(l vfs.Log) *Writer {
	keys, _ := l.(sealing)
	return &Writer{log: l, buf: make([]byte, 0, 4<<10), header: headerLen, keys: keys}
}

// Begin makes the log a chained one. It comes before all else.
func (w *Writer) Begin(b Begin) error {
	w.header, w.chain = chainHeaderLen, newChain(b)
	if w.keys != nil {
		return w.beginSealed(b.encode(beginSealedVersion))
	}
	f := framer{parts: [][]byte{b.encode(beginVersion)}}
	w.buf = f.chunk(w, w.buf[:0], chunkBegin, beginLen, 0)
	return w.flush()
}

// Append writes one record, which reaches the kernel before it returns. rec
// may be empty.
func (w *Writer) Append(rec []byte) error {
	w.one[0] = rec
	err := w.AppendParts(w.one[:]...)
	w.one[0] = nil
	return err
}

// AppendParts writes the concatenation of parts as one record.
func (w *Writer) AppendParts(parts ...[]byte) error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	if w.keys != nil && w.cipher == nil {
		if err := w.beginSealed(nil); err != nil {
			return err
		}
	}
	left := 0 // bytes of the record that are not yet framed
	for _, p := range parts {
		left += len(p)
	}
	f := framer{parts: parts}
	w.whole, w.linked = w.size.Load(), w.chain.previous
	pos := w.whole
	w.buf = w.buf[:0]
	least := w.header // of a chunk
	if w.cipher != nil {
		least += sealOverhead
	}
	for first := true; first || left > 0; first = false {
		room := blockSize - int(pos%blockSize)
		if room < least {
			w.buf = append(w.buf, zeros[:room]...)
			pos, room = pos+int64(room), blockSize
		}
		n := min(left, room-least)
		left -= n
		w.buf = f.chunk(w, w.buf, chunkType(first, left == 0), n, pos)
		pos += int64(least + n)
		if len(w.buf) >= flushAt && left > 0 {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

func chunkType(first, last bool) byte {
	switch {
	case first && last:
		return chunkFull
	case first:
		return chunkFirst
	case last:
		return chunkLast
	}
	return chunkMiddle
}

// flush appends the framed bytes to the log.
func (w *Writer) flush() error {
	if err := w.log.Append(w.buf); err != nil {
		if w.torn = w.err.Load() == nil; w.torn {
			w.size.Store(w.whole)
		}
		return w.fail(err)
	}
	w.size.Add(int64(len(w.buf)))
	w.buf = w.buf[:0]
	if cap(w.buf) > keepBuf {
		w.buf = nil
	}
	return nil
}

// Cut removes what a failed Append left, by cutting the log back to its last whole
// record; after that Append works again. It fails when the last error is not that of an
// Append, or when the log cannot be cut: after a shortage it may be tried again. REQUIRES: no
// Sync runs.
func (w *Writer) Cut() error {
	if !w.torn {
		return fmt.Errorf("record writer: %w: no failed append to take back",
			base.ErrInvalidArgument)
	}
	if err := w.log.Truncate(w.whole); err != nil {
		return err
	}
	w.chain.previous = w.linked
	w.durable.Store(min(w.durable.Load(), w.whole)) // a Sync beside Append may have gone further
	if w.cuts++; w.whole == 0 {
		w.cipher = nil // the next first chunk is of another data key
	}
	w.torn = false
	w.err.Store(nil)
	return nil
}

// fail makes err the result of all later calls, unless an earlier error is.
func (w *Writer) fail(err error) error {
	w.err.CompareAndSwap(nil, &err)
	return *w.err.Load()
}

// framer takes the bytes of a record from its parts.
type framer struct {
	parts [][]byte
	off   int // in parts[0]
}

// chunk appends a chunk of w with the next n bytes, which comes to pos in the file.
func (f *framer) chunk(w *Writer, dst []byte, typ byte, n int, pos int64) []byte {
	head := len(dst)
	dst = append(dst, zeros[:w.header]...)
	if w.cipher != nil {
		return f.sealedChunk(w, dst, head, typ, n, pos)
	}
	crc := w.frame(dst[head:], typ, n, pos)
	for need := n; need > 0; {
		p := f.next(need)
		crc = base.CRCUpdate(crc, p)
		dst = append(dst, p...)
		need -= len(p)
	}
	w.finish(dst[head:], typ, crc, n)
	return dst
}

// sealedChunk is chunk behind the header, which begins at head.
func (f *framer) sealedChunk(w *Writer, dst []byte, head int, typ byte, n int, pos int64) []byte {
	crc := w.frame(dst[head:], typ, n+sealOverhead, pos)
	dst = binary.LittleEndian.AppendUint32(dst, w.cuts)
	at := len(dst)
	for need := n; need > 0; {
		p := f.next(need)
		dst = append(dst, p...)
		need -= len(p)
	}
	dst = w.cipher.Seal(dst[:at], dst[at:], uint64(pos), w.cuts, dst[head+4:head+w.header])
	w.finish(dst[head:], typ, base.CRCUpdate(crc, dst[head+w.header:]), n+sealOverhead)
	return dst
}

// next takes up to n bytes, 1 at least.
func (f *framer) next(n int) []byte {
	p := f.parts[0][f.off:]
	if len(p) > n {
		f.off += n
		return p[:n]
	}
	f.parts, f.off = f.parts[1:], 0
	return p
}

// frame writes the header of a chunk with n stored bytes, but its checksum, and returns the crc
// that the bytes continue.
func (w *Writer) frame(h []byte, typ byte, n int, pos int64) uint32 {
	if w.header == headerLen {
		h[4], h[5], h[6] = byte(n), byte(n>>8), typ
		return typeCRC[typ]
	}
	return w.chain.header(h, typ, n, pos, w.durable.Load())
}

// finish writes the checksum of a chunk.
func (w *Writer) finish(h []byte, typ byte, crc uint32, n int) {
	if w.header == headerLen {
		putHeader(h, typ, crc, n)
	} else {
		w.chain.finish(h, crc)
	}
}

// Sync makes all records appended before the call durable, also if a later Append failed for a
// shortage.
func (w *Writer) Sync() error {
	if err := w.err.Load(); err != nil && !(w.torn && base.IsShortage(*err)) {
		return *err
	}
	size := w.size.Load()
	if err := w.log.Sync(); err != nil {
		return w.fail(err)
	}
	for {
		old := w.durable.Load()
		if old >= size || w.durable.CompareAndSwap(old, size) {
			return nil
		}
	}
}

// Durable is up to where a Sync has made the log durable.
func (w *Writer) Durable() int64 { return w.durable.Load() }

// Size is the number of bytes appended to the log.
func (w *Writer) Size() int64 { return w.size.Load() }

// Close closes the log without syncing it. It reports an earlier error again.
func (w *Writer) Close() error {
	cerr := w.log.Close()
	if err := w.err.Load(); err != nil {
		return *err
	}
	if cerr != nil {
		return w.fail(cerr)
	}
	closed := fmt.Errorf("record writer: %w", base.ErrClosed)
	w.err.Store(&closed)
	return nil
}
