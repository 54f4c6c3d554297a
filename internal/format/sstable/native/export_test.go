package native

import (
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// NewPartitioned is NewWriter of a table whose index is cut into parts above max bytes.
func NewPartitioned(f vfs.WriteFile, o sstable.WriterOptions, max, part int) *Writer {
	w := NewWriter(f, o)
	w.maxIndex, w.partLen = max, part
	return w
}
