package native

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
)

// columns is a data block, searched where it lies.
type columns struct {
	colblk.Block
	part  bool  // of the index, not of data
	limit int64 // bytes that its View may take
	shape colblk.Shape
	known bool // shape is that of the block

	few colblk.Part // of the block

	verified bool // the block lies in a mapped file, see blocktable.Scratch
}

var pool = blocktable.Pool{
	New:     func() blocktable.Block { return new(columns) },
	NewPart: func() blocktable.Block { return &columns{part: true} },
}

// dictOf is the dictionary of a native table, nil if it has none.
func dictOf(t *blocktable.Table) *colblk.Dict {
	d, _ := t.Dict.(*colblk.Dict)
	return d
}

// Open checks the frame and the structure of the block.
func (c *columns) Open(t *blocktable.Table, off uint64, stored []byte,
	s *blocktable.Scratch) (size int, err error) {
	c.known = false
	if c.verified = s.Verified && !c.part; c.verified {
		return c.reopen(t, stored)
	}
	var b []byte
	if c.part {
		b, err = openWhole(stored, kindIndex, t.Number, off)
	} else {
		b, err = openFrame(stored, kindData, t.Number, off)
	}
	if err != nil {
		return 0, err
	}
	if c.Block, err = colblk.Open(b, t.Env.Comparer); err != nil {
		return 0, blocktable.Final(err)
	}
	c.opened(t, b)
	return 2 * len(b), nil
}

// opened notes what the table says of the block of these bytes.
func (c *columns) opened(t *blocktable.Table, b []byte) {
	most := t.Env.MaxDecoded
	if c.part {
		most = t.MaxIndex()
	}
	c.limit = viewLimit(most, len(b))
	if seq := t.Env.GlobalSeq; seq > 0 && !c.part {
		c.SetSeq(seq)
	}
}

// reopen is Open of a block that was verified.
func (c *columns) reopen(t *blocktable.Table, stored []byte) (size int, err error) {
	b, err := frameContents(stored)
	if err != nil {
		return 0, err
	}
	c.Block, err = colblk.OpenVerified(b, t.Env.Comparer)
	c.opened(t, b)
	return 2 * len(b), err
}

// Search looks l up in the columns.
func (c *columns) Search(t *blocktable.Table, l base.Lookup, s *blocktable.Scratch,
	dst []byte) (value []byte, trailer base.Trailer, found bool, ends blocktable.Ends, err error) {
	if !c.verified {
		if ends, err = c.endKeys(&s.View); err != nil {
			return dst, 0, false, ends, err
		}
	}
	i := c.Block.Get(t.Env.Comparer, l)
	if i < 0 {
		return dst, 0, false, ends, nil
	}
	if c.verified && !c.Inside(i) {
		return dst, 0, false, ends, base.Corruptf("table block", "a value outside of its block")
	}
	if trailer = c.Trailer(i); trailer.Kind().HasValue() {
		dst, err = c.AppendValue(dst, i, dictOf(t), c.limit, &s.Raw)
	}
	return dst, trailer, err == nil, ends, err
}

// endKeys reads the first and the last key into buf.
func (c *columns) endKeys(buf *block.Buffer) (e blocktable.Ends, err error) {
	if e.Count = c.Len(); e.Count == 0 {
		return e, nil
	}
	last := e.Count - 1
	first := c.KeyLen(0)
	if err := buf.Reserve(first + c.KeyLen(last)); err != nil {
		return e, err
	}
	b := c.AppendKey(c.AppendKey(buf.Bytes()[:0], 0), last)
	e.First, e.FirstTrailer = b[:first], c.Trailer(0)
	e.Last, e.LastTrailer = b[first:], c.Trailer(last)
	return e, nil
}

// ViewSize measures the block.
func (c *columns) ViewSize(_ *blocktable.Table, cols block.Columns) (int, error) {
	if !c.known {
		var err error
		if c.shape, err = c.Measure(c.limit); err != nil {
			return 0, err
		}
		c.known = true
	}
	return c.shape.ViewSize(cols), nil
}

// BuildView expands the columns.
func (c *columns) BuildView(t *blocktable.Table, s *blocktable.Scratch, dst []byte,
	cols block.Columns) (block.View, error) {
	if err := c.CheckOrder(t.Env.Comparer); err != nil {
		return block.View{}, err
	}
	return c.Block.BuildView(dst, c.shape, t.Env.Comparer, cols, dictOf(t), &s.Raw)
}

// Chunk hands the block out with values packed.
func (c *columns) Chunk(t *blocktable.Table, s *blocktable.Scratch, e *base.Chunk) error {
	if err := c.CheckOrder(t.Env.Comparer); err != nil {
		return err
	}
	return c.Block.Chunk(e, dictOf(t), c.limit, &s.View, &s.Raw)
}

// SeekGE searches the columns.
func (c *columns) SeekGE(t *blocktable.Table, key []byte, trailer base.Trailer) int {
	return c.Block.SeekGE(t.Env.Comparer, key, trailer)
}

// checkOrder checks that keys ascend strictly in internal order.
func checkOrder(v *block.View, cmp *base.Comparer) error {
	for i := 1; i < v.Len(); i++ {
		if cmp.CompareInternal(v.Key(i-1), v.Trailer(i-1), v.Key(i), v.Trailer(i)) >= 0 {
			return base.Corruptf("table block", "entry %d: keys do not ascend", i)
		}
	}
	return nil
}

// Part hands out the first entries at or after (key, trailer).
func (c *columns) Part(t *blocktable.Table, key []byte, trailer base.Trailer, s *blocktable.Scratch,
	e *base.Chunk) (lo int, ends blocktable.Ends, err error) {
	if !c.verified {
		if ends, err = c.endKeys(&s.View); err != nil {
			return 0, ends, err
		}
	}
	lo = c.Block.SeekGE(t.Env.Comparer, key, trailer)
	hi := min(lo+colblk.MaxPart, c.Len())
	if lo == hi {
		return lo, ends, nil
	}
	return lo, ends, c.few.Read(&c.Block, e, lo, hi, dictOf(t), c.limit, &s.Few, &s.Raw)
}
