package ldb

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// salvage reads one damaged table.
type salvage struct {
	env     Env
	f       vfs.ReadFile
	size    uint64
	left    uint64 // bytes of blocks that the index may still lead to
	out     sstable.Salvage
	scratch *blocktable.Scratch

	any     bool // last and trailer are those of the last entry taken
	last    []byte
	trailer base.Trailer
}

// Salvage hands out what is readable of a damaged table: the blocks that the index
// leads to or, without one, those that can be made out in the file.
func Salvage(f vfs.ReadFile, env Env, out sstable.Salvage) error {
	if env.MaxDecoded <= 0 {
		env.MaxDecoded = block.DefaultMaxDecoded
	}
	s := &salvage{env: env, f: f, size: uint64(f.Size()), out: out, scratch: pool.Get()}
	defer pool.Put(s.scratch)
	// Blocks do not overlap; holes may make them larger than the disk.
	s.left = uint64(max(vfs.Stored(f, f.Size()), 0)) + uint64(env.MaxDecoded)
	handles, err := s.readIndex()
	var c *base.Corruption
	switch {
	case errors.As(err, &c):
		s.lost(max(c.Offset, 0), c.Length, c)
		return s.walk()
	case err != nil:
		return err
	}
	return s.byIndex(handles)
}

// lost reports a stretch of the file whose entries have an unknown range.
func (s *salvage) lost(off, length int64, c *base.Corruption) {
	s.out.Lost(sstable.Lost{Offset: off, Length: length, Reason: c.Kind + ": " + c.Reason})
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

// readIndex reads footer and index; every returned handle is within the file and after the previous
// one.
func (s *salvage) readIndex() ([]indexEntry, error) {
	if s.size < FooterLen {
		return nil, at(0, s.size, "too short for a footer")
	}
	end := s.size - FooterLen
	foot, err := s.read(end, FooterLen)
	if err != nil {
		return nil, err
	}
	if magic := binary.LittleEndian.Uint64(foot[FooterLen-8:]); magic != Magic {
		return nil, at(end, FooterLen, "the footer's magic is %#x", magic)
	}
	_, n := block.DecodeHandle(foot[:FooterLen-8])
	index, m := block.DecodeHandle(foot[n : FooterLen-8])
	if n == 0 || m == 0 || index.End() > end {
		return nil, at(end, FooterLen, "the footer does not lead to the index")
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
			s.lost(int64(index.Offset), int64(index.Size),
				base.Corruptf("table index", "an entry leads nowhere"))
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
	return &base.Corruption{Offset: int64(h.Offset), Length: int64(h.Size + block.TrailerLen),
		Kind: c.Kind, Reason: c.Reason}
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
			s.out.Lost(sstable.Lost{Offset: c.Offset, Length: c.Length,
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
	if stored := vfs.Stored(s.f, int64(s.size)); n > uint64(max(stored, s.env.MaxDecoded)) {
		return nil, at(off, n, "a block of %d bytes in a file with %d on disk", n, stored)
	}
	b, err := s.scratch.File.Resize(int(n))
	if err != nil {
		return nil, err
	}
	return b, base.ReadFull(s.f, b, int64(off))
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
	return block.Decompress(&s.scratch.Raw, stored, codec, s.env.MaxDecoded)
}

// take hands out the entries of a data block, up to the first that is malformed,
// and leaves out those that do not ascend.
func (s *salvage) take(rows []byte) error {
	left := max(s.env.MaxDecoded, int64(len(rows))) // keys may expand, but not without end
	skipped := 0
	err := block.EachRow(rows, func(key, value []byte) error {
		k, ok := base.DecodeInternalKey(key)
		if !ok || !k.Trailer.Kind().InLevelDB() {
			return base.Corruptf("table block", "a key is not an internal key")
		}
		if left -= int64(len(key) + len(value)); left < 0 {
			return base.Corruptf("table block", "its keys expand to more than %d bytes",
				s.env.MaxDecoded)
		}
		if s.any && s.env.Comparer.CompareInternal(s.last, s.trailer, k.User, k.Trailer) >= 0 {
			skipped++
			return nil
		}
		if err := s.out.Add(k.User, k.Trailer, base.CodecRaw, value); err != nil {
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
