package native

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// A value in the index of parts is
//
//	handle   of the part of the index
//	blocks   varint: data blocks in it
//	end      varint: offset of the end of the last of them
//	handle   of the part of the filter, absent without a filter

func appendPart(dst []byte, index block.Handle, blocks int, end uint64,
	filter block.Handle) []byte {
	dst = block.AppendHandle(dst, index)
	dst = binary.AppendUvarint(dst, uint64(blocks))
	dst = binary.AppendUvarint(dst, end)
	if filter.Size > 0 {
		dst = block.AppendHandle(dst, filter)
	}
	return dst
}

// decodePart undoes appendPart. ok is false where b is malformed.
func decodePart(b []byte) (p blocktable.Part, filter block.Handle, ok bool) {
	h, n := block.DecodeHandle(b)
	if n == 0 {
		return p, filter, false
	}
	b = b[n:]
	blocks, n := binary.Uvarint(b)
	if n <= 0 || blocks == 0 || blocks > maxPartBlocks {
		return p, filter, false
	}
	b = b[n:]
	end, n := binary.Uvarint(b)
	if n <= 0 {
		return p, filter, false
	}
	if b = b[n:]; len(b) > 0 {
		if filter, n = block.DecodeHandle(b); n != len(b) {
			return p, filter, false
		}
	}
	p.Handle = blocktable.Handle{Offset: h.Offset, Length: h.Size}
	p.Blocks, p.DataEnd = int(blocks), end
	return p, filter, true
}

// maxPartBlocks is above the blocks of all parts that there are.
const maxPartBlocks = 1 << 24

func (r *Reader) openIndexOfParts(_ *properties, h block.Handle,
	s *blocktable.Scratch) (err error) {
	r.Index.View, err = r.readColumns(h, kindParts, s, r.Index.Alloc)
	if err == nil && r.Index.View.Len() == 0 {
		err = base.Corruptf("table index", "no parts")
	}
	return err
}

// setParts reads the index of parts. The parts of the index, and those of the filter, are adjacent
// within the ranges that the properties give.
func (r *Reader) setParts(p *properties) error {
	v := &r.Index.View
	parts := make([]blocktable.Part, v.Len())
	var handles []block.Handle
	index, filters, end := p.index.Offset, p.filter.Offset, uint64(0)
	for i := range parts {
		part, filter, ok := decodePart(v.Value(i))
		switch {
		case !ok || (filter.Size > 0) != (p.filter.Size > 0):
			return blocktable.Final(base.Corruptf("table index", "malformed part %d", i))
		case part.Offset != index || part.DataEnd <= end || filter.Size > 0 &&
			filter.Offset != filters:
			return blocktable.Final(base.Corruptf("table index",
				"part %d does not follow the one before", i))
		case uint64(part.Blocks) > (part.DataEnd-end)/headerLen: // memory is taken for each block
			return blocktable.Final(base.Corruptf("table index",
				"part %d has %d blocks in %d bytes", i, part.Blocks, part.DataEnd-end))
		}
		parts[i] = part
		index, end = part.End(), part.DataEnd
		if filter.Size > 0 {
			handles = append(handles, filter)
			filters += filter.Size
		}
	}
	if index != p.index.Offset+p.index.Size {
		return blocktable.Final(base.Corruptf("table index", "its parts end at %d", index))
	}
	r.Index.SetParts(parts)
	r.DataEnd, r.Tail = end, end
	if handles != nil {
		r.parted = &filterParts{r: r, handles: handles}
	}
	return nil
}

// makePart makes the index, which is whole and open, and the filter the only part of theirs.
func (r *Reader) makePart(p *properties, h block.Handle, s *blocktable.Scratch) error {
	var w colblk.Writer
	defer w.Free()
	if err := w.Reset(colblk.Options{Comparer: r.Env.Comparer}); err != nil {
		return err
	}
	x := &r.Index
	n := x.View.Len()
	if err := w.Add(x.View.Key(n-1), x.View.Trailer(n-1), base.CodecRaw,
		appendPart(nil, h, n, r.DataEnd, p.filter)); err != nil {
		return err
	}
	b, err := w.Finish(make([]byte, 0, w.Bound()), 1)
	if err != nil {
		return err
	}
	x.Drop()
	if x.View, err = r.viewOf(b, s, x.Alloc); err != nil {
		return err
	}
	return r.setParts(p)
}

// checkFilterParts checks that the parts of the filter make up all of it.
func (r *Reader) checkFilterParts(h block.Handle) error {
	last := r.parted.handles[len(r.parted.handles)-1]
	if last.Offset+last.Size != h.Offset+h.Size {
		return blocktable.Final(base.Corruptf("table filter", "its parts end at %d",
			last.Offset+last.Size))
	}
	return nil
}

// filterParts is the filter of a table whose index is cut into parts.
type filterParts struct {
	r       *Reader
	handles []block.Handle
	slots   *cache.Slots // nil without a cache
}

// Cached reports whether part p is in memory.
func (f *filterParts) Cached(p int) bool { return f.slots != nil && f.slots.Touch(p) }

// Admits reports whether part p admits the key. A part that is not in memory is read if the cache
// wants it; else it admits every key: a read of it costs more than one of the data block.
func (f *filterParts) Admits(p int, l base.Lookup, flags sstable.ReadFlags) (bool, error) {
	if admits, ok := f.ask(p, l); ok {
		return admits, nil
	}
	if flags&sstable.MemoryOnly != 0 {
		return false, base.ErrWouldBlock
	}
	if f.slots != nil && (flags&(sstable.NoFill|sstable.Private) != 0 ||
		!f.slots.Admit(p, int(f.handles[p].Size))) {
		return true, nil
	}
	return f.read(p, l, flags)
}

// ask asks part p if it is in memory.
func (f *filterParts) ask(p int, l base.Lookup) (admits, ok bool) {
	if f.slots == nil {
		return false, false
	}
	frame, ok := f.slots.Pin(p)
	if !ok {
		return false, false
	}
	table, err := filter.Parse(frame.Bytes())
	admits = err != nil || table.MayContain(l.Hash)
	frame.Release()
	return admits, true
}

// MayContain reports whether the filter, as far as it is in memory, admits the key.
func (f *filterParts) MayContain(l base.Lookup) bool {
	p := f.r.Index.PartAt(f.r.Env.Comparer, l.Key(), l.Trailer())
	if p == len(f.handles) {
		return false
	}
	admits, ok := f.ask(p, l)
	return admits || !ok
}

// maxAsked is how many parts are asked for a range at most.
const maxAsked = 2

// MayContainRange reports whether one of the parts in which [lower, upper) lies admits the
// hash of its prefix. It reads parts that are not in memory.
func (f *filterParts) MayContainRange(lower, upper []byte, hash uint64) bool {
	cmp, index := f.r.Env.Comparer, &f.r.Index
	last := len(f.handles) - 1
	if upper != nil {
		last = min(last, index.PartAt(cmp, upper, base.MaxTrailer))
	}
	first := index.PartAt(cmp, lower, base.MaxTrailer)
	if last-first >= maxAsked {
		return true
	}
	for p := first; p <= last; p++ {
		if admits, err := f.Admits(p, base.Lookup{Hash: hash}, 0); admits || err != nil {
			return true
		}
	}
	return false
}

// VerifyMeta checks the parts of the filter.
func (r *Reader) VerifyMeta() error {
	if r.parted == nil {
		return nil
	}
	for p := range r.parted.handles {
		if _, err := r.parted.read(p, base.Lookup{}, sstable.NoFill); err != nil {
			return err
		}
	}
	return nil
}

// read reads part p of the filter and asks it.
func (f *filterParts) read(p int, l base.Lookup, flags sstable.ReadFlags) (bool, error) {
	s := pool.Get()
	defer pool.Put(s)
	r, h := f.r, f.handles[p]
	stored, err := r.Read(&s.File, h.Offset, h.Size)
	if err != nil {
		return false, err
	}
	table, err := r.parseFilter(stored, h.Offset)
	if err != nil {
		return false, r.Locate(err, h.Offset, h.Size)
	}
	if f.slots != nil && flags&(sstable.NoFill|sstable.Private) == 0 {
		if frame := r.Env.Cache.Alloc(len(stored) - headerLen); frame.Valid() {
			copy(frame.Bytes(), stored[headerLen:])
			frame = f.slots.Publish(p, frame)
			frame.Release()
		}
	}
	return table.MayContain(l.Hash), nil
}
