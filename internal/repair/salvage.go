package repair

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/block"
	"github.com/loamdb/loam/internal/sstable/ldb"
	"github.com/loamdb/loam/internal/vfs"
)

// salvageBuffers is memory that all salvages of a repair share.
type salvageBuffers struct{ file, raw block.Buffer }

func (b *salvageBuffers) free() {
	b.file.Free()
	b.raw.Free()
}

// salvage copies what is readable of one table.
type salvage struct {
	r    *repair
	t    *table
	f    vfs.ReadFile
	size uint64
	left uint64 // bytes of blocks that the index may still lead to
	out  output

	any     bool // last and trailer are those of the last entry taken
	last    []byte
	trailer base.Trailer
}

// salvageTable writes the readable entries of a damaged table to new ones.
func (r *repair) salvageTable(t *table) ([]*table, error) {
	f, ok, err := r.open(t.name)
	if !ok {
		return nil, err
	}
	defer f.Close()
	s := &salvage{r: r, t: t, f: f, size: uint64(f.Size()), out: output{r: r, level: t.level}}
	// Blocks do not overlap; holes may make them larger than the disk.
	s.left = uint64(max(vfs.Stored(f, f.Size()), 0)) + uint64(r.o.MaxDecoded)
	handles, err := s.readIndex()
	var c *base.Corruption
	switch {
	case errors.As(err, &c):
		r.report.dropCorruption(t.name, c, 0, 0)
		err = s.walk()
	case err == nil:
		err = s.byIndex(handles)
	}
	tables, err := s.out.finish(err)
	if err != nil {
		return nil, fmt.Errorf("salvaging %s: %w", t.name, err)
	}
	return tables, nil
}

// indexEntry is where a data block is said to lie, and a key at or after its
// last.
type indexEntry struct {
	block.Handle
	separator []byte // user key
}

func at(off, n uint64, format string, args ...any) *base.Corruption {
	c := base.Corruptf("table", format, args...)
	c.Offset, c.Length = int64(off), int64(n)
	return c
}

// readIndex reads footer and index; every handle it returns lies in the file
// and behind the one before.
func (s *salvage) readIndex() ([]indexEntry, error) {
	if s.size < ldb.FooterLen {
		return nil, at(0, s.size, "too short for a footer")
	}
	end := s.size - ldb.FooterLen
	foot, err := s.read(end, ldb.FooterLen)
	if err != nil {
		return nil, err
	}
	if magic := binary.LittleEndian.Uint64(foot[ldb.FooterLen-8:]); magic != ldb.Magic {
		return nil, at(end, ldb.FooterLen, "the footer's magic is %#x", magic)
	}
	_, n := block.DecodeHandle(foot[:ldb.FooterLen-8])
	index, m := block.DecodeHandle(foot[n : ldb.FooterLen-8])
	if n == 0 || m == 0 || index.End() > end {
		return nil, at(end, ldb.FooterLen, "the footer does not lead to the index")
	}
	rows, err := s.contents(index)
	if err != nil {
		return nil, locate(err, index)
	}
	var handles []indexEntry
	last := uint64(0)
	err = block.EachRow(rows, func(key, value []byte) error {
		k, ok := base.DecodeInternalKey(key)
		h, n := block.DecodeHandle(value)
		if !ok || n == 0 || h.Offset < last || h.End() > end {
			s.r.report.drop(s.t.name, int64(index.Offset), int64(index.Size), "table index: an entry leads nowhere")
			return nil
		}
		last = h.End()
		handles = append(handles, indexEntry{h, bytes.Clone(k.User)})
		return nil
	})
	if err != nil {
		return nil, locate(err, index)
	}
	return handles, nil
}

// locate gives damage the place of its block.
func locate(err error, h block.Handle) error {
	var c *base.Corruption
	if !errors.As(err, &c) {
		return err
	}
	return &base.Corruption{Offset: int64(h.Offset), Length: int64(h.Size + block.TrailerLen), Kind: c.Kind, Reason: c.Reason}
}

// byIndex takes the blocks that the index names.
func (s *salvage) byIndex(handles []indexEntry) error {
	var before []byte // user key that the lost block's keys are not below
	for _, h := range handles {
		rows, err := s.contents(h.Handle)
		if err == nil {
			err = s.take(rows)
		}
		var c *base.Corruption
		if errors.As(locate(err, h.Handle), &c) {
			s.r.report.Dropped = append(s.r.report.Dropped, Drop{File: s.t.name, Offset: c.Offset, Length: c.Length,
				Reason: c.Kind + ": " + c.Reason, Smallest: before, Largest: h.separator})
		} else if err != nil {
			return err
		}
		before = h.separator
	}
	return nil
}

// read returns n bytes that lie in the file, valid until the next call.
func (s *salvage) read(off, n uint64) ([]byte, error) {
	if off > s.size || n > s.size-off {
		return nil, at(off, n, "lies outside of the file")
	}
	if stored := vfs.Stored(s.f, int64(s.size)); n > uint64(max(stored, s.r.o.MaxDecoded)) {
		return nil, at(off, n, "a block of %d bytes in a file with %d on disk", n, stored)
	}
	b, err := s.r.block.file.Resize(int(n))
	if err != nil {
		return nil, err
	}
	if got, err := s.f.ReadAt(b, int64(off)); got < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

// contents returns a block's rows, checked and decompressed.
func (s *salvage) contents(h block.Handle) ([]byte, error) {
	if h.Size > s.left {
		return nil, at(h.Offset, h.Size, "its blocks have more bytes than there are on disk")
	}
	s.left -= h.Size
	b, err := s.read(h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return nil, err
	}
	return s.unpack(b)
}

func (s *salvage) unpack(b []byte) ([]byte, error) {
	stored, codec, err := block.Open(b)
	if err != nil {
		return nil, err
	}
	return block.Decompress(&s.r.block.raw, stored, codec, s.r.o.MaxDecoded)
}

// take writes the entries of a data block, up to the first that is malformed,
// and leaves out those that do not ascend.
func (s *salvage) take(rows []byte) error {
	left := max(s.r.o.MaxDecoded, int64(len(rows))) // keys may expand, but not without end
	skipped := 0
	err := block.EachRow(rows, func(key, value []byte) error {
		k, ok := base.DecodeInternalKey(key)
		if !ok || !k.Trailer.Kind().InLevelDB() {
			return base.Corruptf("table block", "a key is not an internal key")
		}
		if left -= int64(len(key) + len(value)); left < 0 {
			return base.Corruptf("table block", "its keys expand to more than %d bytes", s.r.o.MaxDecoded)
		}
		if s.any && s.r.o.Comparer.CompareInternal(s.last, s.trailer, k.User, k.Trailer) >= 0 {
			skipped++
			return nil
		}
		if err := s.out.add(k.User, k.Trailer, base.CodecRaw, value); err != nil {
			return err
		}
		s.any = true
		s.last, s.trailer = append(s.last[:0], k.User...), k.Trailer
		return nil
	})
	if err == nil && skipped > 0 {
		err = base.Corruptf("table block", "%d entries do not come after the one before", skipped)
	}
	return err
}
