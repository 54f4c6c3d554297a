package files

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/sstable/ldb"
	"github.com/loamdb/loam/internal/vfs"
)

// Only this file knows which table formats there are. The rest of the engine gets
// readers and writers, as of package sstable, from it.

// TableOptions says what a table is opened with.
type TableOptions struct {
	Name       string       // base name of the file, for errors
	Cache      *cache.Cache // nil: blocks are decoded anew for each read
	Comparer   *base.Comparer
	MaxDecoded int64 // largest block that is decompressed; 0: the format's default
}

func (o TableOptions) ldb() ldb.Env {
	return ldb.Env{Name: o.Name, Cache: o.Cache, Comparer: o.Comparer, MaxDecoded: o.MaxDecoded}
}

// footerTail is how many bytes at the end of a table tell its format.
const footerTail = 8

// foreignMagics are the last eight bytes of table formats that Loam does not read.
var foreignMagics = map[uint64]string{
	0x88e241b785f4cff7: "a RocksDB table",
	0x8242229663bf9564: "a RocksDB plain table",
	0x4f3418eb7a8f13b8: "an old RocksDB plain table",
	0x926789d0c5f17873: "a RocksDB cuckoo table",
	0xb3aa9ff0b3aa9ff0: "a Pebble table",
	0:                  "zeros, as if it was never written",
}

// OpenTable opens a table in the format that the magic at its end names. The
// reader does not close src, which must stay open until the reader is closed.
func OpenTable(src vfs.ReadFile, o TableOptions) (sstable.Reader, error) {
	size := src.Size()
	if size < footerTail {
		return nil, &base.Corruption{File: o.Name, Length: size, Kind: "table footer",
			Reason: fmt.Sprintf("file of %d bytes is too short", size)}
	}
	var tail [footerTail]byte
	n, err := src.ReadAt(tail[:], size-footerTail)
	if n < len(tail) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("table %s: footer: %w", o.Name, err)
	}
	magic := binary.LittleEndian.Uint64(tail[:])
	if magic == ldb.Magic {
		r, err := ldb.Open(src, o.ldb())
		if err != nil {
			return nil, err // not a nil *ldb.Reader in an interface
		}
		return r, nil
	}
	what, known := foreignMagics[magic]
	if !known {
		what = "no table format that is known"
	}
	return nil, &base.Corruption{File: o.Name, Offset: size - footerTail, Length: footerTail, Kind: "table footer",
		Reason: fmt.Sprintf("not a LevelDB table: magic %#x is %s", magic, what)}
}

// NewTableWriter begins a table. The writer owns f.
func NewTableWriter(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer {
	return ldb.NewWriter(f, o)
}

// SalvageTable hands out what is readable of a damaged table. If its magic is not
// readable it is taken for a table in LevelDB's format.
func SalvageTable(src vfs.ReadFile, o TableOptions, out sstable.Salvage) error {
	return ldb.Salvage(src, o.ldb(), out)
}
