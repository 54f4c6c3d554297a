package blocktable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/memory/cache"
)

// Handle says where a data block lies in the file, with all that its format puts around
// it.
type Handle struct {
	Offset, Length uint64
}

// End is the file offset after the block.
func (h Handle) End() uint64 { return h.Offset + h.Length }

// Index leads from keys to data blocks. Each block has a separator, an internal key at
// or after its last key and before the first one of the block after it.
type Index struct {
	// View has the separators and, for values, handles as of block.AppendHandle; or it is
	// an index of parts, see SetParts.
	View    block.View
	mem     block.Buffer
	trailer uint64 // bytes that follow each block and that handles do not count
	blocks  int    // data blocks

	parts []Part       // nil: all is in View
	slots *cache.Slots // of the parts
}

// Alloc returns the memory in which the format builds View.
func (x *Index) Alloc(n int) ([]byte, error) { return x.mem.Resize(n) }

// Drop frees the memory of View.
func (x *Index) Drop() {
	x.View = block.View{}
	x.mem.Free()
}

// Check checks every handle and returns the end of the last block: blocks lie one after
// the other and end by limit. trailer is how many bytes follow a block that its handle
// does not count; packed means that the blocks are adjacent.
func (x *Index) Check(limit, trailer uint64, packed bool) (end uint64, err error) {
	x.trailer, x.blocks = trailer, x.View.Len()
	return checkHandles(&x.View, 0, limit, trailer, packed)
}

// checkHandles checks the handles in v, of blocks that begin at or after end.
func checkHandles(v *block.View, end, limit, trailer uint64, packed bool) (uint64, error) {
	for i := range v.Len() {
		value := v.Value(i)
		b, n := block.DecodeHandle(value)
		switch {
		case n == 0 || n != len(value):
			return 0, base.Corruptf("table index", "malformed handle of block %d", i)
		case b.Size == 0:
			return 0, base.Corruptf("table index", "block %d is empty", i)
		case b.Offset < end:
			return 0, base.Corruptf("table index", "block %d at %d overlaps the one before", i,
				b.Offset)
		case packed && b.Offset > end:
			return 0, base.Corruptf("table index", "block %d at %d does not follow the one before",
				i, b.Offset)
		case b.Offset+b.Size+trailer > limit:
			return 0, base.Corruptf("table index", "block %d at %d, length %d, lies outside the "+
				"data", i, b.Offset, b.Size)
		}
		end = b.Offset + b.Size + trailer
	}
	return end, nil
}

// Len is the number of data blocks.
func (x *Index) Len() int { return x.blocks }

// SeekGE returns the only block that can hold the first entry at or after (key, t),
// Len() when the table ends before it. REQUIRES: no parts.
func (x *Index) SeekGE(cmp *base.Comparer, key []byte, t base.Trailer) int {
	return x.View.SeekGE(cmp, key, t)
}

// Handle returns where data block i lies. REQUIRES: no parts.
func (x *Index) Handle(i int) Handle { return x.handleIn(&x.View, i) }

// handleIn is the handle of entry i of v.
func (x *Index) handleIn(v *block.View, i int) Handle {
	h, _ := block.DecodeHandle(v.Value(i))
	return Handle{h.Offset, h.Size + x.trailer}
}

// beginsKey reports whether no block before block i, which is e, has the user key of e's entry 0.
// It may deny that.
func (x *Index) beginsKey(cmp *base.Comparer, i int, e *base.Chunk) bool {
	return i > 0 && x.parts == nil && e.Len() > 0 && cmp.Cmp(x.View.Key(i-1), e.Key(0)) < 0
}

func (x *Index) free() {
	if x.slots != nil {
		x.slots.Free()
	}
	x.parts, x.slots, x.blocks = nil, nil, 0
	x.Drop()
}

// Ends are the keys that a block begins and ends with.
type Ends struct {
	Count                     int // entries of the block
	First, Last               []byte
	FirstTrailer, LastTrailer base.Trailer
}

func endsOf(v *block.View) (e Ends) {
	if e.Count = v.Len(); e.Count > 0 {
		last := e.Count - 1
		e.First, e.FirstTrailer = v.Key(0), v.Trailer(0)
		e.Last, e.LastTrailer = v.Key(last), v.Trailer(last)
	}
	return e
}

// checkBounds checks data block i against the index: its entries lie after the separator
// before it and not after its own.
func (p *place) checkBounds(cmp *base.Comparer, i int, e *Ends) error {
	if e.Count == 0 {
		return base.Corruptf("table block", "has no entries")
	}
	if cmp.CompareInternal(e.Last, e.LastTrailer, p.upper.User, p.upper.Trailer) > 0 {
		return base.Corruptf("table block", "last key lies after the block's key in the index")
	}
	if i > 0 && cmp.CompareInternal(e.First, e.FirstTrailer, p.lower.User, p.lower.Trailer) <= 0 {
		return base.Corruptf("table block", "first key does not lie after the block before")
	}
	return nil
}
