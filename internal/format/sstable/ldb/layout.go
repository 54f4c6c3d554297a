package ldb

import (
	"sort"

	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Layout lists the pieces of the file in their order.
func (r *Reader) Layout() ([]sstable.Piece, error) {
	pieces, err := r.Table.Layout()
	if err != nil {
		return nil, err
	}
	add := func(name string, h block.Handle) error {
		pieces = append(pieces, sstable.Piece{Name: name, Offset: h.Offset,
			Length: h.Size + block.TrailerLen})
		return nil
	}
	meta, index, err := r.metaBlocks(add)
	if err != nil {
		return nil, err
	}
	_, _ = add("metaindex", meta), add("index", index)
	sort.Slice(pieces, func(i, j int) bool { return pieces[i].Offset < pieces[j].Offset })
	return append(pieces, sstable.Piece{Name: "footer",
		Offset: r.Properties.Size - FooterLen, Length: FooterLen}), nil
}
