package native

import (
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Layout lists the pieces of the file in their order.
func (r *Reader) Layout() ([]sstable.Piece, error) {
	pieces, err := r.Table.Layout()
	if err != nil {
		return nil, err
	}
	s := pool.Get()
	defer pool.Put(s)
	var foot [FooterLen]byte
	size := r.Properties.Size
	p, at, err := r.readProps(size, &foot, s)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name   string
		handle block.Handle
	}{{"dictionary", p.dict}, {"filter", p.filter}, {"range tombstones", p.rangeDels},
		{"index", p.index}, {"index of parts", p.parts}} {
		if h := part.handle; h.Size > 0 {
			pieces = append(pieces, sstable.Piece{Name: part.name, Offset: h.Offset,
				Length: h.Size})
		}
	}
	end := size - FooterLen
	return append(pieces, sstable.Piece{Name: "properties", Offset: at, Length: end - at},
		sstable.Piece{Name: "footer", Offset: end, Length: FooterLen}), nil
}
