package ldb

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Bounds of a walk.
const (
	walkWindow = 8 << 20  // longest block found right behind another, in bytes
	walkStray  = 64 << 10 // longest block found anywhere else
	walkSteps  = 1 << 30  // bytes looked at in all
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// walk takes the data blocks of a table that has no readable index. Blocks
// stand one behind the other from the start of the file, each followed by its
// checksum, which shows where it ends. The index, too, has the form of a data
// block: it must not be taken for one.
func (s *salvage) walk() error {
	steps := int64(walkSteps)
	lost := uint64(0) // where the stretch without blocks begins
	behind := true    // off is where the file begins, or a block has ended
	starts := uint64(fewStarts)
	var strays strays
	found := make(map[uint64]uint64) // offset -> end of the data blocks made out
	off := uint64(0)
	for off+block.TrailerLen < s.Size && steps > 0 {
		if data := uint64(vfs.NextData(s.File, int64(off))); data > off+1 {
			off, behind = data-1, false // a block begins with one zero at most
			continue
		}
		limit := uint64(walkWindow)
		if !behind {
			limit = starts + walkStray
		}
		b, err := s.read(off, min(limit, s.Size-off))
		if err != nil {
			return err
		}
		n := 0
		if behind {
			if n = blockLen(b, &steps); n < 0 {
				behind, starts = false, fewStarts
				continue
			}
		} else {
			first := 0
			first, n = strays.find(b, int(min(starts, uint64(len(b)))), &steps)
			off += uint64(first)
			if n == 0 {
				starts = min(2*starts, strayStarts)
				continue
			}
			b = b[first:]
		}
		s.lose(lost, off)
		end := off + uint64(n)
		role, err := s.walkBlock(b[:n], off, found)
		if err != nil {
			return err
		}
		switch role {
		case dataBlock:
			found[off] = end
		case indexBlock:
			return nil // data ends here
		}
		off, lost, behind = end, end, true
	}
	s.lose(lost, s.Size)
	return nil
}

func (s *salvage) lose(from, to uint64) {
	if from < to {
		s.Lost(from, to-from, base.Corruptf("table", "no block can be made out"), nil, nil)
	}
}

// blockLen is the length, trailer included, of the block that begins b, or -1
// when none does: the least at which the checksum is right.
func blockLen(b []byte, steps *int64) int {
	crc := ^uint32(0)
	for i := 0; i+block.TrailerLen <= len(b); i++ {
		// b[i] is the codec, when the block's contents end here.
		with := castagnoli[byte(crc)^b[i]] ^ crc>>8
		if i > 0 && b[i] <= byte(block.Deflate) &&
			base.UnmaskCRC(binary.LittleEndian.Uint32(b[i+1:])) == ^with {
			*steps -= int64(i)
			return i + block.TrailerLen
		}
		crc = with
	}
	*steps -= int64(len(b))
	return -1
}

// blockRole is what a block of a table without an index is taken for.
type blockRole uint8

const (
	otherBlock   blockRole = iota // filter, properties or metaindex, or damaged
	dataBlock                     // its entries are taken
	indexBlock                    // the last block of the table
	unclearBlock                  // data or the index
)

// walkBlock takes one block, if it is a data block.
func (s *salvage) walkBlock(b []byte, off uint64, found map[uint64]uint64) (blockRole, error) {
	damaged := func(err error) error {
		var c *base.Corruption
		if !errors.As(err, &c) {
			return err
		}
		s.Lost(off, uint64(len(b)), c, nil, nil)
		return nil
	}
	rows, err := s.unpack(b)
	if err != nil {
		return otherBlock, damaged(err)
	}
	role := classify(rows, off, found)
	switch role {
	case dataBlock:
		err = s.take(rows)
	case unclearBlock:
		err = base.Corruptf("table", "a block that may be data or the index, all before it being "+
			"unreadable")
	}
	return role, damaged(err)
}

// classify tells what the block at off can be, given the data blocks found before it. An index has
// consecutive handles as values, and includes those of all blocks that were found: data of that
// form would have to know where the table's blocks lie. Where none was found, data may have that
// form by chance.
func classify(rows []byte, off uint64, found map[uint64]uint64) blockRole {
	n, hits, end := 0, 0, uint64(0)
	handles := true
	// Rows before a malformed one tell enough.
	_ = block.EachRow(rows, func(key, value []byte) error {
		k, ok := base.DecodeInternalKey(key)
		if !ok || !k.Trailer.Kind().InLevelDB() {
			return base.Corruptf("table block", "not a data block")
		}
		n++
		h, w := block.DecodeHandle(value)
		if w == 0 || w != len(value) || h.Offset < end || h.End() > off {
			handles = false
		} else if end = h.End(); found[h.Offset] == end {
			hits++
		}
		return nil
	})
	switch {
	case n == 0:
		return otherBlock
	case handles && hits > 0:
		return indexBlock
	case handles && len(found) == 0 && off > 0:
		return unclearBlock
	}
	return dataBlock
}
