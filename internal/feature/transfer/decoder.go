package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// streamName stands for the name of a file in Corruption errors.
const streamName = "the dump"

// point is a place between two frames of a dump.
type point struct {
	offset int64  // in bytes from the beginning of the dump
	sum    uint64 // of the frame before
	counts Counts // of the blocks before
}

func (p *point) clone() point {
	q := *p
	q.counts.Entries = slices.Clone(p.counts.Entries)
	return q
}

// Decoder reads a dump. It stops at the end record.
type Decoder struct {
	r      io.Reader
	Header Header
	at     point        // behind the last frame
	last   *point       // before the last block
	raw    []byte       // payload of the last frame
	buf    block.Buffer // the same, decompressed
	head   [frameLen + sumLen]byte

	compare func(space int) *base.Comparer // nil: the order of keys is not known
	lastKey []byte                         // of the last block, in its keyspace
	space   int
}

// NewDecoder reads the header of a dump. The caller closes it.
func NewDecoder(r io.Reader) (*Decoder, error) {
	d := &Decoder{r: r}
	if err := d.begin(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close gives back memory.
func (d *Decoder) Close() { d.buf.Free() }

// begin reads the part before the first block.
func (d *Decoder) begin() error {
	var start [preambleLen]byte
	if err := d.read(start[:]); err != nil {
		return err
	}
	if string(start[:len(magic)]) != magic {
		return d.damaged("dump", "this is not a dump: it does not begin with %q", magic)
	}
	switch v := binary.LittleEndian.Uint32(start[len(magic):]); {
	case v > version:
		return fmt.Errorf("%w: the dump has version %d of the format, known is %d",
			base.ErrNewerFormat, v, version)
	case v < version:
		return d.damaged("dump", "version %d of the format", v)
	}
	d.at.offset = int64(preambleLen)
	f, payload, err := d.frame()
	if err != nil {
		return err
	}
	if f.kind != headerFrame {
		err = base.Corruptf("dump header", "a frame of type %c stands in its place", f.kind)
	} else {
		err = d.Header.parse(payload)
	}
	d.at.counts.Entries = make([]uint64, len(d.Header.Spaces))
	return d.corrupt(int64(preambleLen), err)
}

// damaged is damage behind the last frame.
func (d *Decoder) damaged(kind, format string, args ...any) error {
	return base.Corruptf(kind, format, args...).At(streamName, d.at.offset, 0)
}

// corrupt adds the offset to a Corruption.
func (d *Decoder) corrupt(offset int64, err error) error {
	return base.LocateCorruption(err, streamName, offset, 0)
}

// read fills p from the stream.
func (d *Decoder) read(p []byte) error {
	_, err := io.ReadFull(d.r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.damaged("dump", "it was cut: there is no end record")
	}
	if err != nil {
		return fmt.Errorf("reading behind offset %d of the dump: %w", d.at.offset, err)
	}
	return nil
}

// readStep bounds how much memory is taken for bytes that may not come.
const readStep = 1 << 20

// frame reads a frame. The payload is valid until the next one.
func (d *Decoder) frame() (f frame, payload []byte, err error) {
	head := d.head[:frameLen]
	if err = d.read(head); err != nil {
		return f, nil, err
	}
	if f, err = parseFrame(head); err != nil {
		return f, nil, d.corrupt(d.at.offset, err)
	}
	stored := int(f.stored)
	if cap(d.raw) > keptBuffer && stored <= keptBuffer {
		d.raw = nil
	}
	d.raw = d.raw[:0]
	for len(d.raw) < stored {
		n := len(d.raw)
		d.raw = slices.Grow(d.raw, min(stored-n, max(readStep, n)))[:n+min(stored-n,
			max(readStep, n))]
		if err = d.read(d.raw[n:]); err != nil {
			return f, nil, err
		}
	}
	tail := d.head[frameLen:]
	if err = d.read(tail); err != nil {
		return f, nil, err
	}
	s := sum(d.at.sum, head, d.raw)
	if s != binary.LittleEndian.Uint64(tail) {
		return f, nil, d.damaged("dump frame", "the checksum of it and what is before is wrong")
	}
	payload = d.raw
	if f.codec != block.None {
		if payload, err = d.unpack(f); err != nil {
			return f, nil, err
		}
	}
	d.at.offset += int64(frameLen + stored + sumLen)
	d.at.sum = s
	return f, payload, nil
}

// zstdMagic is what tells zstd from other codecs that tables give its number to.
const zstdMagic = "\x28\xb5\x2f\xfd"

func (d *Decoder) unpack(f frame) ([]byte, error) {
	if f.codec == block.Zstd &&
		(len(d.raw) < len(zstdMagic) || string(d.raw[:len(zstdMagic)]) != zstdMagic) {
		return nil, d.damaged("dump block", "is not zstd's")
	}
	payload, err := block.Decompress(&d.buf, d.raw, f.codec, int64(f.decoded))
	if err != nil {
		return nil, d.corrupt(d.at.offset, err)
	}
	if len(payload) != int(f.decoded) {
		return nil, d.damaged("dump block", "decompresses to %d bytes instead of %d", len(payload),
			f.decoded)
	}
	return payload, nil
}

// Next reads a block and hands its entries, of the keyspace that it returns, to take. It reports
// false at the end record. After an error of take the Decoder is of no use.
func (d *Decoder) Next(take func(space int, e Entry) error) (more bool, err error) {
	before := d.at.clone()
	f, payload, err := d.frame()
	switch {
	case err != nil:
		return false, err
	case f.kind == endFrame:
		return false, d.corrupt(before.offset, before.counts.check(payload))
	case f.kind != blockFrame:
		err = base.Corruptf("dump frame", "a second header")
	case int64(f.space) >= int64(len(d.Header.Spaces)) || int(f.space) < d.space:
		err = base.Corruptf("dump block", "it is of keyspace %d, after %d of %d", f.space, d.space,
			len(d.Header.Spaces))
	default:
		err = d.entries(f, payload, take)
	}
	if err != nil {
		return false, d.corrupt(before.offset, err)
	}
	d.last = &before
	return true, nil
}

// entries checks and hands out the entries of a block.
func (d *Decoder) entries(f frame, payload []byte, take func(space int, e Entry) error) error {
	space := int(f.space)
	before, known := d.lastKey, d.last != nil && space == d.space // the key before
	var cmp *base.Comparer
	if d.compare != nil {
		cmp = d.compare(space)
	}
	for range f.entries {
		e, rest, err := cutEntry(payload)
		if err != nil {
			return err
		}
		if e.Deadline != 0 && !d.Header.Spaces[space].Expires {
			return base.Corruptf("dump block", "an entry of a keyspace without deadlines has one")
		}
		if known && cmp != nil && cmp.Cmp(before, e.Key) >= 0 {
			return base.Corruptf("dump block", "keys do not ascend")
		}
		if err := take(space, e); err != nil {
			return err
		}
		before, known, payload = e.Key, true, rest
		d.at.counts.Bytes += uint64(len(e.Key) + len(e.Value))
	}
	if len(payload) > 0 {
		return base.Corruptf("dump block", "it does not end with its last entry")
	}
	d.space, d.lastKey = space, append(d.lastKey[:0], before...)
	d.at.counts.Blocks++
	d.at.counts.Entries[space] += uint64(f.entries)
	return nil
}

// skip goes to a later point, the beginning of a block whose entries were taken already, and reads
// that block.
func (d *Decoder) skip(to point) error {
	nothing := func(int, Entry) error { return nil }
	if s, ok := d.r.(io.Seeker); ok && to.offset > d.at.offset {
		if _, err := s.Seek(to.offset-d.at.offset, io.SeekCurrent); err == nil {
			d.at = to.clone()
		}
	}
	for d.at.offset < to.offset {
		more, err := d.Next(nothing)
		if err == nil && !more {
			err = d.damaged("dump", "it ends before the place where its load was interrupted")
		}
		if err != nil {
			return err
		}
	}
	if d.at.offset != to.offset || d.at.sum != to.sum {
		return d.damaged("dump", "it is not the one whose load was interrupted: a block has "+
			"another length or checksum")
	}
	more, err := d.Next(nothing)
	if err == nil && !more {
		err = d.damaged("dump", "it ends where a block was loaded")
	}
	return err
}
