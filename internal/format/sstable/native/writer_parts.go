package native

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
)

const (
	// maxIndex is the most memory that an index may take which is not cut into parts: that of
	// a table of about 700 MB.
	maxIndex = 8 << 20
	// partLen is about the memory of a part of an index. The filter of its keys takes some 30 KiB.
	partLen = 8 << 10
	// partOverhead is about what cutting off a part takes in the file.
	partOverhead = 220
)

// partition is a part of the index: of the data blocks [from, to).
type partition struct {
	from, to      int
	index, filter block.Handle
}

// isCut reports whether index and filter are cut into parts.
func (w *Writer) isCut() bool {
	n, most := w.blocks.memory(), w.maxIndex
	if whole := w.Options.MaxWhole; n <= most && whole > 0 {
		most, n = whole, n+w.FilterSize()
	}
	return n > most
}

// partitions cuts the data blocks.
func (w *Writer) partitions() (parts []partition) {
	l := &w.blocks
	if !w.isCut() {
		return []partition{{to: l.len()}}
	}
	from, size := 0, 0
	for i := range l.len() {
		size += len(l.separator(i).User) + blocktable.ViewColumns + 6
		if size >= w.partLen || i == l.len()-1 {
			parts = append(parts, partition{from: from, to: i + 1})
			from, size = i+1, 0
		}
	}
	return parts
}

// writeParts writes what follows the data blocks, up to the properties.
func (w *Writer) writeParts(p *properties) error {
	parts := w.partitions()
	var err error
	if d := w.data.Dict(); d != nil {
		if p.dict, err = w.writeFrame(kindDict, d); err != nil {
			return err
		}
	}
	at := w.Offset
	if w.Filtered {
		for i := range parts {
			if parts[i].filter, err = w.writeFilter(&parts[i]); err != nil {
				return err
			}
		}
		p.filter = block.Handle{Offset: at, Size: w.Offset - at}
	}
	if n := w.dels.Len(); n > 0 {
		if p.rangeDels, err = w.writeColumns(kindRangeDels, &w.dels, n); err != nil {
			return err
		}
	}
	at = w.Offset
	for i := range parts {
		if parts[i].index, err = w.writeIndex(&parts[i]); err != nil {
			return err
		}
	}
	p.index = block.Handle{Offset: at, Size: w.Offset - at}
	if w.isCut() {
		p.parts, err = w.writeIndexOfParts(parts)
	}
	return err
}

// writeFilter builds the filter of a part in the output. A key whose versions end the
// part before may go on in this one, and so may keys with its prefix: their hashes come
// first, the prefix's in place of one that only parts before need. Parts are built in order.
func (w *Writer) writeFilter(p *partition) (block.Handle, error) {
	hashes := w.Hashes()
	if p.to < w.blocks.len() {
		hashes = hashes[:w.blocks.hashes[p.to-1]]
	}
	if p.from > 0 {
		from := max(w.blocks.hashes[p.from-1]-1, 0)
		if at := w.blocks.prefixes[p.from-1]; at >= 0 && at < from {
			from--
			hashes[from] = hashes[at]
		}
		hashes = hashes[from:]
	}
	if err := w.Buf.Reserve(headerLen + filter.Size(len(hashes), w.Options.BloomBits)); err != nil {
		return block.Handle{}, err
	}
	from := w.Buf.Len()
	w.Buf.Set(filter.Build(w.Buf.Bytes()[:from+headerLen], hashes, w.Options.BloomBits))
	return w.seal(kindFilter, from)
}

// writeIndex writes the index of a part.
func (w *Writer) writeIndex(p *partition) (block.Handle, error) {
	var buf [block.MaxHandleLen]byte
	for i := p.from; i < p.to; i++ {
		k := w.blocks.separator(i)
		if i > 0 {
			// Neighbouring entries ascend; with a comparer that is no order that says
			// nothing of blocks.
			before, c := w.blocks.separator(i-1), w.Options.Comparer
			if c.CompareInternal(before.User, before.Trailer, k.User, k.Trailer) >= 0 {
				return block.Handle{}, base.Invalidf("blocks of a table must ascend")
			}
		}
		if err := w.index.Add(k.User, k.Trailer, base.CodecRaw,
			block.AppendHandle(buf[:0], w.blocks.handles[i])); err != nil {
			return block.Handle{}, err
		}
	}
	return w.writeColumns(kindIndex, &w.index, w.index.Len())
}

// writeIndexOfParts writes where the parts lie.
func (w *Writer) writeIndexOfParts(parts []partition) (block.Handle, error) {
	var buf []byte
	for i := range parts {
		p := &parts[i]
		h := w.blocks.handles[p.to-1]
		buf = appendPart(buf[:0], p.index, p.to-p.from, h.Offset+h.Size, p.filter)
		k := w.blocks.separator(p.to - 1)
		if err := w.index.Add(k.User, k.Trailer, base.CodecRaw, buf); err != nil {
			return block.Handle{}, err
		}
	}
	return w.writeColumns(kindParts, &w.index, w.index.Len())
}
