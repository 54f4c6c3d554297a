package tree

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
)

// large replaces the handle that stands in value from index from on by the value that it refers to.
// With sstable.MemoryOnly it fails with base.ErrWouldBlock, with sstable.NoValue it only takes the
// handle away.
func (h *hold) large(value []byte, from int, flags sstable.ReadFlags) ([]byte, error) {
	switch {
	case flags&sstable.NoValue != 0:
		return value[:from], nil
	case flags&sstable.MemoryOnly != 0:
		return value[:from], base.ErrWouldBlock
	}
	h.addRef() // keeps the log, and no guard waits for the disk
	var handle [base.MaxValueHandle + 1]byte
	n := copy(handle[:], value[from:]) // a longer one is none
	return h.tree.shared.Files.AppendValue(value[:from], handle[:n])
}
