package transfer

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// The format of a dump is docs/format-dump.md: magic, version, and frames: the header, blocks of
// entries and the end record.

// magic is what a dump begins with. A transfer that changes line ends or cuts the highest bits
// damages it.
const magic = "\x89LOAMD\r\n"

// version is the version of the format, which stands behind magic as four bytes.
const version = 1

const preambleLen = len(magic) + 4

// Types of frames.
const (
	headerFrame byte = 'H'
	blockFrame  byte = 'B'
	endFrame    byte = 'E'
)

const (
	frameLen = 24 // bytes before the payload
	sumLen   = 8  // behind it
)

// maxPayload is the length in bytes of the longest payload that is not one entry stored as it is.
const maxPayload = block.DefaultMaxDecoded

// frame is the first part of a frame.
type frame struct {
	kind    byte
	codec   block.Codec
	stored  uint32 // length of the payload
	decoded uint32 // its length when it is decompressed
	space   uint32 // index of the keyspace, of a block
	entries uint32 // of a block
}

// append appends the encoded frame to b.
func (f *frame) append(b []byte) []byte {
	from := len(b)
	b = append(b, f.kind, byte(f.codec), 0, 0)
	for _, n := range []uint32{f.stored, f.decoded, f.space, f.entries} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return binary.LittleEndian.AppendUint32(b, base.CRC(b[from:]))
}

// parseFrame decodes frameLen bytes. Its lengths are plausible then; what the payload has is to be
// checked.
func parseFrame(b []byte) (f frame, err error) {
	if base.CRC(b[:frameLen-4]) != binary.LittleEndian.Uint32(b[frameLen-4:]) {
		return f, base.Corruptf("dump frame", "its checksum is wrong")
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	f = frame{kind: b[0], codec: block.Codec(b[1]), stored: at(4), decoded: at(8), space: at(12),
		entries: at(16)}
	switch {
	case b[2] != 0 || b[3] != 0:
		err = base.Corruptf("dump frame", "bytes that are always 0 are not")
	case f.kind != headerFrame && f.kind != blockFrame && f.kind != endFrame:
		err = base.Corruptf("dump frame", "unknown type %d", f.kind)
	case f.codec > block.Zstd || f.codec != block.None && f.kind != blockFrame:
		err = base.Corruptf("dump frame", "unknown compression %d of a frame of type %c", f.codec,
			f.kind)
	case f.kind != blockFrame && (f.space != 0 || f.entries != 0):
		err = base.Corruptf("dump frame", "a frame of type %c has a keyspace or entries", f.kind)
	case f.kind == blockFrame && (f.entries == 0 || f.entries > f.decoded/2):
		err = base.Corruptf("dump frame", "%d entries in %d bytes", f.entries, f.decoded)
	case f.codec == block.None && f.stored != f.decoded, f.codec != block.None &&
		f.stored >= f.decoded:
		err = base.Corruptf("dump frame", "%d bytes are stored as %d", f.decoded, f.stored)
	case f.decoded > maxPayload && (f.kind != blockFrame || f.codec != block.None ||
		f.entries != 1):
		err = base.Corruptf("dump frame", "a payload of %d bytes", f.decoded)
	}
	return f, err
}

// sum is the checksum of a frame and its payload behind frames with the checksum before.
func sum(before uint64, parts ...[]byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(before)
	for _, p := range parts {
		_, _ = d.Write(p) // never fails
	}
	return d.Sum64()
}

// Header is what a dump says before its entries.
type Header struct {
	ID      [16]byte // random
	Created uint64   // in seconds since 1970
	Seq     uint64   // sequence number of the state in its database
	Spaces  []HeaderSpace
}

// HeaderSpace is a keyspace of a dump.
type HeaderSpace struct {
	Name, Comparer, MergeOperator string // the last one is empty where there is none
	Expires                       bool   // entries may have deadlines
}

// append appends the payload of the header's frame.
func (h *Header) append(b []byte) []byte {
	b = append(b, h.ID[:]...)
	b = binary.AppendUvarint(b, h.Created)
	b = binary.AppendUvarint(b, h.Seq)
	b = binary.AppendUvarint(b, uint64(len(h.Spaces)))
	for _, s := range h.Spaces {
		for _, text := range []string{s.Name, s.Comparer, s.MergeOperator} {
			b = base.AppendBytes(b, []byte(text))
		}
		expires := byte(0)
		if s.Expires {
			expires = 1
		}
		b = append(b, expires)
	}
	return b
}

func (h *Header) parse(b []byte) error {
	c := base.Cutter{B: b}
	copy(h.ID[:], c.Bytes(len(h.ID)))
	h.Created, h.Seq = c.Uvarint(), c.Uvarint()
	n := c.Uvarint()
	if !c.Bad && n > uint64(len(c.B))/4 {
		return base.Corruptf("dump header", "%d keyspaces in %d bytes", n, len(c.B))
	}
	seen := map[string]bool{}
	for range n {
		s := HeaderSpace{Name: c.String(math.MaxInt), Comparer: c.String(math.MaxInt),
			MergeOperator: c.String(math.MaxInt)}
		flags := c.Bytes(1)
		if c.Bad {
			break
		}
		if seen[s.Name] || flags[0] > 1 {
			return base.Corruptf("dump header", "keyspace %.300q is there twice, or has unknown "+
				"flags %d", s.Name, flags[0])
		}
		seen[s.Name] = true
		s.Expires = flags[0] == 1
		h.Spaces = append(h.Spaces, s)
	}
	if c.Bad || len(c.B) > 0 {
		return base.Corruptf("dump header", "does not end where its frame does")
	}
	return nil
}

// Counts is what the end record says of the frames before.
type Counts struct {
	Blocks  uint64
	Bytes   uint64   // of keys and values
	Entries []uint64 // by keyspace
}

func (n *Counts) append(b []byte) []byte {
	b = binary.AppendUvarint(b, n.Blocks)
	b = binary.AppendUvarint(b, n.Bytes)
	for _, e := range n.Entries {
		b = binary.AppendUvarint(b, e)
	}
	return b
}

// check compares the payload of an end record with the counts.
func (n *Counts) check(b []byte) error {
	if string(n.append(nil)) != string(b) {
		return base.Corruptf("dump end record", "its counts are not those of the blocks")
	}
	return nil
}

// All is the sum of Entries.
func (n *Counts) All() (entries uint64) {
	for _, e := range n.Entries {
		entries += e
	}
	return entries
}

// appendEntry appends an entry to the payload of a block.
func appendEntry(b, key, value []byte, deadline uint64) []byte {
	n := uint64(len(key)) << 1
	if deadline != 0 {
		n |= 1
	}
	b = binary.AppendUvarint(b, n)
	b = binary.AppendUvarint(b, uint64(len(value)))
	if deadline != 0 {
		b = binary.AppendUvarint(b, deadline)
	}
	return append(append(b, key...), value...)
}

// Entry is an entry of a block.
type Entry struct {
	Key, Value []byte
	Deadline   uint64 // in seconds since 1970; 0: it does not expire
}

// cutEntry cuts an entry off the rest of a payload.
func cutEntry(b []byte) (e Entry, rest []byte, err error) {
	c := base.Cutter{B: b}
	n, m := c.Uvarint(), c.Uvarint()
	if n&1 != 0 {
		if e.Deadline = c.Uvarint(); !c.Bad && (e.Deadline == 0 || e.Deadline > base.MaxDeadline) {
			return e, nil, base.Corruptf("dump block", "an entry expires at %d", e.Deadline)
		}
	}
	if n >>= 1; c.Bad || n > uint64(len(c.B)) || m > uint64(len(c.B))-n {
		return e, nil, base.Corruptf("dump block", "an entry goes beyond the end")
	}
	if n+m > base.MaxEntry {
		return e, nil, fmt.Errorf("%w: an entry of %d bytes", base.ErrTooLarge, n+m)
	}
	e.Key, e.Value = c.Bytes(int(n)), c.Bytes(int(m))
	return e, c.B, nil
}
