package files

import (
	"encoding/binary"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/foreign"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/format/sstable/native"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Only this file knows which table formats there are. The rest of the engine gets
// readers and writers, as of package sstable, from it.

// TableOptions says what a table is opened with.
type TableOptions = blocktable.Env

// footerTail is how many bytes at the end of a table tell its format.
const footerTail = 8

// OpenTable opens a table in the format that the magic at its end names. The
// reader does not close src, which must stay open until the reader is closed.
func OpenTable(src vfs.ReadFile, o TableOptions) (sstable.Reader, error) {
	size := src.Size()
	if size < footerTail {
		return nil, base.Corruptf("table footer", "file of %d bytes is too short", size).At(
			o.Name, 0, size)
	}
	var tail [footerTail]byte
	if err := base.ReadFull(src, tail[:], size-footerTail); err != nil {
		return nil, fmt.Errorf("table %s: footer: %w", o.Name, err)
	}
	magic := binary.LittleEndian.Uint64(tail[:])
	switch magic {
	case ldb.Magic:
		r, err := ldb.Open(src, o)
		if err != nil {
			return nil, err // not a nil *ldb.Reader in an interface
		}
		return r, nil
	case native.Magic:
		r, err := native.Open(src, o)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	return nil, base.Corruptf("table footer", "no table of Loam or LevelDB: magic %#x is %s",
		magic, foreign.Table(magic)).At(o.Name, size-footerTail, footerTail)
}

// TableProps reads what a table records of itself, whatever its comparer is: nothing in
// LevelDB's format. Damage is a *base.Corruption.
func TableProps(src vfs.ReadFile, o TableOptions) (sstable.Props, error) {
	is, err := native.Is(src, o)
	if err != nil || !is {
		return sstable.Props{}, err
	}
	return native.ReadProps(src, o)
}

// NewTableWriter begins a table of o.Format. The writer owns f.
func NewTableWriter(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer {
	if o.Format == base.Native {
		return native.NewWriter(f, o)
	}
	return ldb.NewWriter(f, o)
}

// Packing is how the values of a table with these options are packed; ok is false if its format
// packs no values by themselves.
func Packing(o sstable.WriterOptions) (p colblk.Options, ok bool) {
	if o.Format != base.Native {
		return p, false
	}
	return native.Packing(&o), true
}

// SalvageTable hands out what is readable of a damaged table. One whose magic is not
// readable is taken for a native table if it has a block of one, else for one in LevelDB's
// format.
func SalvageTable(src vfs.ReadFile, o TableOptions, out sstable.Salvage) error {
	is, err := native.Is(src, o)
	if err != nil {
		return err
	}
	if is {
		return native.Salvage(src, o, out)
	}
	return ldb.Salvage(src, o, out)
}
