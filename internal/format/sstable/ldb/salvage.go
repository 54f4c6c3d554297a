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
	blocktable.Salvager
	left uint64 // bytes of blocks that the index may still lead to
}

// Salvage hands out what is readable of a damaged table: the blocks that the index
// leads to or, without one, those that can be made out in the file.
func Salvage(f vfs.ReadFile, env Env, out sstable.Salvage) error {
	s := &salvage{Salvager: blocktable.NewSalvager(f, env, out, &pool)}
	defer pool.Put(s.Scratch)
	// Blocks do not overlap; holes may make them larger than the disk.
	s.left = s.Stored + uint64(s.Env.MaxDecoded)
	handles, err := s.readIndex()
	var c *base.Corruption
	switch {
	case errors.As(err, &c):
		s.Lost(uint64(max(c.Offset, 0)), uint64(c.Length), c, nil, nil)
		return s.walk()
	case err != nil:
		return err
	}
	return s.byIndex(handles)
}

// indexEntry is where a data block is said to lie, and a key at or after its
// last.
type indexEntry struct {
	block.Handle
	separator []byte // user key; nil: not kept
}

func at(off, n uint64, format string, args ...any) *base.Corruption {
	return base.Corruptf("table", format, args...).At("", int64(off), int64(n))
}

// readIndex reads footer and index; every returned handle is within the file and after the previous
// one.
func (s *salvage) readIndex() ([]indexEntry, error) {
	if s.Size < FooterLen {
		return nil, at(0, s.Size, "too short for a footer")
	}
	end := s.Size - FooterLen
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
	last, room := uint64(0), blocktable.MaxLostKeys
	err = block.EachRow(rows, func(key, value []byte) error {
		k, ok := base.DecodeInternalKey(key)
		h, n := block.DecodeHandle(value)
		if !ok || n == 0 || h.Offset < last || h.End() > end {
			s.Lost(index.Offset, index.Size,
				base.Corruptf("table index", "an entry leads nowhere"), nil, nil)
			return nil
		}
		last = h.End()
		e := indexEntry{Handle: h}
		if room -= len(k.User); room >= 0 {
			e.separator = bytes.Clone(k.User)
		}
		handles = append(handles, e)
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
			s.Lost(uint64(c.Offset), uint64(c.Length), c, before, h.separator)
		} else if err != nil {
			return err
		}
		before = h.separator
	}
	return nil
}

// read returns n bytes that lie in the file, valid until the next call.
func (s *salvage) read(off, n uint64) ([]byte, error) {
	if off > s.Size || n > s.Size-off {
		return nil, at(off, n, "lies outside of the file")
	}
	if n > max(s.Stored, uint64(s.Env.MaxDecoded)) {
		return nil, at(off, n, "a block of %d bytes in a file with %d on disk", n, s.Stored)
	}
	return s.Read(&s.Scratch.File, off, n)
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
	stored, codec, err := block.Verify(b)
	if err != nil {
		return nil, err
	}
	return block.Decompress(&s.Scratch.Raw, stored, codec, s.Env.MaxDecoded)
}

// take hands out the entries of a data block, up to the first that is malformed,
// and leaves out those that do not ascend.
func (s *salvage) take(rows []byte) error {
	left := max(s.Env.MaxDecoded, int64(len(rows))) // keys may expand, but not without end
	skipped := 0
	err := block.EachRow(rows, func(key, value []byte) (err error) {
		k, ok := base.DecodeInternalKey(key)
		if !ok || !k.Trailer.Kind().InLevelDB() {
			return base.Corruptf("table block", "a key is not an internal key")
		}
		if left -= int64(len(key) + len(value)); left < 0 {
			return base.Corruptf("table block", "its keys expand to more than %d bytes",
				s.Env.MaxDecoded)
		}
		ok, err = s.Add(k.User, k.Trailer, base.CodecRaw, value)
		if err == nil && !ok {
			skipped++
		}
		return err
	})
	if err == nil && skipped > 0 {
		err = base.Corruptf("table block", "%d entries do not come after the one before", skipped)
	}
	return err
}
