package record

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/seal"
)

// A log or MANIFEST of an encrypted database is sealed chunk by chunk, in either framing:
//
//   - It begins with a chunk of type chunkBegin, which has a seal.Header and a tag. In the chained
//     framing what Begin says comes first.
//   - The data of every later chunk are cuts u32 | sealed bytes | tag. Cuts counts the calls of
//     Writer.Cut so far: behind a cut an offset is written twice, and it may be sealed only once.
//
// Checksums are those of the sealed bytes, so that torn ends and damage are told apart as in clear
// logs, and without keys. An intact chunk that cannot be opened was changed on purpose, or is of
// another key.
const (
	cutsLen      = 4
	sealOverhead = cutsLen + seal.Overhead
	maxBegin     = beginLen + seal.HeaderLen + seal.Overhead
)

// sealing is a log that a seal.FS has created.
type sealing interface {
	Seal() ([]byte, *seal.Sealer, error)
}

// keyed is a file that a seal.FS has opened.
type keyed interface {
	AllowClear() bool
	OpenRecords(h *seal.Header, name string) (*seal.Opener, error)
}

// keysOf are the keys of a file.
func keysOf(r any) keyed {
	if k, ok := r.(keyed); ok {
		return k
	}
	return noKeys{}
}

// noKeys are those of a file that no seal.FS has opened.
type noKeys struct{}

func (noKeys) AllowClear() bool { return true }

func (noKeys) OpenRecords(h *seal.Header, name string) (*seal.Opener, error) {
	return (*seal.Keys)(nil).Open(h, name)
}

// opening opens the chunks of a file.
type opening struct {
	cipher *seal.Opener // nil: the chunks are clear, as far as it is known
	header int          // length of a chunk's header
	plain  []byte       // of the last whole record
}

// least is the room that a chunk needs at the end of a block.
func (o *opening) least() int64 {
	if o.cipher != nil {
		return int64(o.header + sealOverhead)
	}
	return int64(o.header)
}

// begin reads what the file's first chunk, which is intact, says of its keys. The header of the
// encryption is skip bytes behind the beginning of the chunk's data.
func (o *opening) begin(r io.ReaderAt, name string, chunk []byte, skip int) error {
	data := chunk[o.header : o.header+chunkLen(chunk)]
	tag := len(data) - seal.Overhead
	if tag < skip {
		return o.damaged(name, 0, "the first chunk is too short")
	}
	h, err := seal.Decode(data[skip:tag])
	switch {
	case err != nil:
		return base.LocateCorruption(err, name, int64(o.header+skip), 0)
	case h == nil || h.Kind != seal.Records || seal.HeaderLen != tag-skip:
		return o.damaged(name, 0, "the first chunk has no header of an encrypted log")
	}
	c, err := keysOf(r).OpenRecords(h, name)
	if err != nil {
		return base.LocateCorruption(err, name, int64(o.header+skip), 0)
	}
	if _, ok := c.Open(nil, data[tag:], 0, 0, chunk[4:o.header+tag]); !ok {
		return o.damaged(name, 0, "the first chunk is not what was written there")
	}
	o.cipher = c
	return nil
}

// checkClear fails for a clear chunk in an encrypted database.
func (o *opening) checkClear(r io.ReaderAt, name string) error {
	if keys := keysOf(r); o.cipher == nil && !keys.AllowClear() {
		return seal.ErrClear(name)
	}
	return nil
}

// keyLost reports, behind damage, whether the first chunk had the data key of the others and both
// copies of it are lost. One that is intact serves.
func (o *opening) keyLost(r io.ReaderAt, name string) (bool, error) {
	if o.cipher != nil {
		return false, nil
	}
	begin := o.header
	if o.header == chainHeaderLen {
		begin += beginLen
	}
	var b [seal.HeaderLen]byte
	n, err := r.ReadAt(b[:], int64(begin))
	if n < len(b) && err != nil && err != io.EOF {
		return false, err
	}
	if h := seal.Salvage(b[:n]); h != nil && h.Kind == seal.Records {
		o.cipher, err = keysOf(r).OpenRecords(h, name)
		if errors.Is(err, base.ErrCorruption) { // it is of a former life of the file
			return true, nil
		}
		return false, err
	}
	return !keysOf(r).AllowClear(), nil
}

// data appends the data of the chunk at pos to dst.
func (o *opening) data(dst, chunk []byte, name string, pos int64) ([]byte, error) {
	data := chunk[o.header : o.header+chunkLen(chunk)]
	if o.cipher == nil {
		return append(dst, data...), nil
	}
	if len(data) < sealOverhead {
		return nil, o.damaged(name, pos, "a sealed chunk is too short")
	}
	out, ok := o.cipher.Open(dst, data[cutsLen:], uint64(pos), binary.LittleEndian.Uint32(data),
		chunk[4:o.header])
	if !ok {
		return nil, o.damaged(name, pos, "a sealed chunk is not what was written there")
	}
	return out, nil
}

// full is the data of a chunk that is a whole record.
func (o *opening) full(chunk []byte, name string, pos int64) ([]byte, error) {
	if o.cipher == nil {
		n := o.header + chunkLen(chunk)
		return chunk[o.header:n:n], nil
	}
	var err error
	o.plain, err = o.data(o.plain[:0], chunk, name, pos)
	return o.plain, err
}

func (o *opening) damaged(name string, pos int64, why string) error {
	return base.Corruptf("log record", "%s", why).At(name, pos, 0)
}

// beginSealed makes the Cipher of a writer's file and writes its first chunk; begin is what the
// chained framing says there.
func (w *Writer) beginSealed(begin []byte) error {
	header, c, err := w.keys.Seal()
	if err != nil {
		return w.fail(err)
	}
	n := len(begin) + len(header) + seal.Overhead
	b := append(w.buf[:0], zeros[:w.header]...)
	crc := w.frame(b, chunkBegin, n, 0)
	b = append(append(b, begin...), header...)
	b = c.Seal(b, nil, 0, 0, b[4:])
	w.finish(b, chunkBegin, base.CRCUpdate(crc, b[w.header:]), n)
	w.buf, w.cipher, w.cuts = b, c, 0
	return w.flush()
}
