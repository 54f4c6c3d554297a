package transfer

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// zstdLevel is zstd's effort, the least one: a dump is written as fast as it is read.
const zstdLevel = 1

// keptBuffer is the largest buffer that is kept for the next block.
const keptBuffer = 4 << 20

// Encoder is a Sink that writes a dump.
type Encoder struct {
	w          io.Writer
	codec      *block.Compressor
	blockBytes int
	header     Header
	progress   func(*Encoder) // called after each block

	payload []byte // entries of the block in the making
	entries uint32 // in it
	space   int    // its keyspace
	packed  []byte
	out     []byte // frame of the last write

	sum     uint64 // of the last frame
	counts  Counts
	written int64
}

// NewEncoder makes an Encoder. Its header gets the keyspaces of Begin.
func NewEncoder(w io.Writer, o DumpOptions, h Header, progress func(*Encoder)) (*Encoder, error) {
	codec, err := block.NewCompressor(o.Codec, zstdLevel)
	return &Encoder{w: w, codec: codec, blockBytes: o.BlockBytes, header: h, progress: progress},
		err
}

// Begin writes the header.
func (e *Encoder) Begin(spaces []Space) error {
	e.header.Spaces = headerSpaces(spaces)
	e.counts.Entries = make([]uint64, len(spaces))
	payload := e.header.append(nil)
	if len(payload) > maxPayload {
		return fmt.Errorf("%w: the names of %d keyspaces have %d bytes", base.ErrTooLarge,
			len(spaces), len(payload))
	}
	start := binary.LittleEndian.AppendUint32([]byte(magic), version)
	if err := e.write(start); err != nil {
		return err
	}
	return e.writeFrame(frame{kind: headerFrame}, payload, payload)
}

func headerSpaces(spaces []Space) []HeaderSpace {
	out := make([]HeaderSpace, len(spaces))
	for i, s := range spaces {
		out[i] = HeaderSpace{Name: s.Name, Comparer: s.Comparer.Name, Expires: s.Expires}
		if s.Merge != nil {
			out[i].MergeOperator = s.Merge.Name
		}
	}
	return out
}

// Put adds an entry to the block. A full one is written before.
func (e *Encoder) Put(i int, key, value []byte, deadline uint64) error {
	if e.entries > 0 && (i != e.space || len(e.payload)+len(key)+len(value) > e.blockBytes) {
		if err := e.flush(); err != nil {
			return err
		}
	}
	if !base.EntryFits(key, value) {
		return fmt.Errorf("%w: an entry of %d bytes", base.ErrTooLarge, len(key)+len(value))
	}
	e.space = i
	e.payload = appendEntry(e.payload, key, value, deadline)
	e.entries++
	e.counts.Entries[i]++
	e.counts.Bytes += uint64(len(key) + len(value))
	return nil
}

// flush writes the block.
func (e *Encoder) flush() error {
	if e.entries == 0 {
		return nil
	}
	if n := e.codec.Bound(len(e.payload)); cap(e.packed) < n {
		e.packed = make([]byte, 0, n)
	}
	stored, codec := e.codec.Compress(e.packed, e.payload)
	e.counts.Blocks++
	err := e.writeFrame(frame{kind: blockFrame, codec: codec, space: uint32(e.space),
		entries: e.entries}, e.payload, stored)
	if e.payload, e.entries = e.payload[:0], 0; cap(e.payload) > keptBuffer {
		e.payload, e.packed = nil, nil
	}
	if err == nil {
		e.progress(e)
	}
	return err
}

// End writes the last block and the end record.
func (e *Encoder) End() error {
	if err := e.flush(); err != nil {
		return err
	}
	payload := e.counts.append(nil)
	return e.writeFrame(frame{kind: endFrame}, payload, payload)
}

// writeFrame writes a frame and the checksum of all frames so far. payload is what is stored,
// decompressed.
func (e *Encoder) writeFrame(f frame, payload, stored []byte) error {
	if len(payload) > math.MaxUint32 {
		return fmt.Errorf("%w: a block of %d bytes", base.ErrTooLarge, len(payload))
	}
	f.stored, f.decoded = uint32(len(stored)), uint32(len(payload))
	e.out = f.append(e.out[:0])
	e.sum = sum(e.sum, e.out, stored)
	if err := e.write(e.out); err != nil {
		return err
	}
	if err := e.write(stored); err != nil {
		return err
	}
	return e.write(binary.LittleEndian.AppendUint64(e.out[:0], e.sum))
}

func (e *Encoder) write(p []byte) error {
	n, err := e.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("writing at offset %d of the dump: %w", e.written, err)
	}
	e.written += int64(len(p))
	return nil
}
