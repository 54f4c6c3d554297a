package ldb

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
)

// rowBlock is a decompressed data block.
type rowBlock struct {
	raw   []byte
	limit int64 // bytes that its View may take
	shape block.Shape
	known bool // shape is that of raw
}

var pool = blocktable.Pool{New: func() blocktable.Block { return new(rowBlock) }}

// Open checks and decompresses a data block.
func (b *rowBlock) Open(t *blocktable.Table, _ uint64, stored []byte,
	s *blocktable.Scratch) (size int, err error) {
	*b = rowBlock{}
	b.raw, b.limit, err = unpack(stored, s, t.MaxRaw, t.Env.MaxDecoded)
	return len(b.raw), err
}

// Search looks l up in the rows, with all the checks that a View takes.
func (b *rowBlock) Search(t *blocktable.Table, l base.Lookup, s *blocktable.Scratch,
	dst []byte) (value []byte, trailer base.Trailer, found bool, ends blocktable.Ends, err error) {
	got, err := block.SearchRows(b.raw, b.limit, t.Env.Comparer, l, &s.View)
	if err != nil {
		return dst, 0, false, ends, err
	}
	if got.Found && got.Trailer.Kind().HasValue() {
		dst = append(dst, got.Value...)
	}
	return dst, got.Trailer, got.Found, blocktable.Ends{Count: got.Count, First: got.First,
		Last:         got.Last,
		FirstTrailer: got.FirstTrailer, LastTrailer: got.LastTrailer}, nil
}

// ViewSize measures the rows.
func (b *rowBlock) ViewSize(_ *blocktable.Table, cols block.Columns) (int, error) {
	if !b.known {
		var err error
		if b.shape, err = block.Measure(b.raw, b.limit); err != nil {
			return 0, err
		}
		b.known = true
	}
	return b.shape.ViewSize(cols), nil
}

// BuildView decodes the rows.
func (b *rowBlock) BuildView(t *blocktable.Table, _ *blocktable.Scratch, dst []byte,
	cols block.Columns) (block.View, error) {
	return block.BuildView(dst, b.raw, b.shape, t.Env.Comparer, cols)
}
