package blocktable

import (
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// An index of many megabytes is cut into parts, which go through the cache like data blocks.
// In memory is an index of the parts. A Position may then be a part: the data block is
// not known before the part is read.

const (
	// partFlag marks a Position that is a part.
	partFlag = sstable.Position(1 << 63)
	// filterFlag marks a part whose part of the filter is to be asked first.
	filterFlag = sstable.Position(1 << 62)
)

// Part is a part of an index.
type Part struct {
	Handle         // of the part
	Blocks  int    // data blocks that it leads to
	DataEnd uint64 // end of the last of them

	first int    // number of the first of them
	from  uint64 // its offset
}

// SetParts makes View an index of parts, each with the last separator of its part. What
// the parts say of data blocks has been checked to ascend.
func (x *Index) SetParts(parts []Part) {
	x.parts, x.blocks = parts, 0
	from := uint64(0)
	for i := range parts {
		p := &parts[i]
		p.first, p.from = x.blocks, from
		x.blocks += p.Blocks
		from = p.DataEnd
	}
}

// PartAt returns the part that leads to the first entry at or after (key, t), the number of
// parts where the table ends before it.
func (x *Index) PartAt(cmp *base.Comparer, key []byte, t base.Trailer) int {
	return x.View.SeekGE(cmp, key, t)
}

// partOf is the part that leads to data block i.
func (x *Index) partOf(i int) int {
	return sort.Search(len(x.parts), func(p int) bool { return x.parts[p].first > i }) - 1
}

// part returns part p of the index. The view lies in the frame, or in s where the frame is not
// Valid.
func (t *Table) part(p int, flags sstable.ReadFlags, s *Scratch) (cache.Frame, block.View, error) {
	x := &t.Index
	if x.slots != nil {
		if f, ok := x.slots.Pin(p); ok {
			return f, block.OpenView(f.Bytes()), nil
		}
	}
	if s.partTable == t && s.part == p {
		return cache.Frame{}, s.partView, nil
	}
	if flags&sstable.MemoryOnly != 0 {
		return cache.Frame{}, block.View{}, base.ErrWouldBlock
	}
	s.partTable = nil
	h := x.parts[p].Handle
	f, v, err := t.readPart(p, x.slots != nil && flags&(sstable.NoFill|sstable.Private) == 0, s)
	if err != nil {
		return cache.Frame{}, block.View{}, t.Locate(err, h.Offset, h.Length)
	}
	if f.Valid() {
		f = x.slots.Publish(p, f)
		return f, block.OpenView(f.Bytes()), nil
	}
	s.partTable, s.part, s.partView = t, p, v
	return f, v, nil
}

// readPart reads part p of the index, into a frame if fill says so and there is memory for it.
func (t *Table) readPart(p int, fill bool, s *Scratch) (f cache.Frame, v block.View, err error) {
	h := t.Index.parts[p].Handle
	stored, err := t.Read(&s.partFile, h.Offset, h.Length)
	if err != nil {
		return f, v, err
	}
	if s.partBlock == nil {
		s.partBlock = t.pool.NewPart()
	}
	b := s.partBlock
	if _, err := b.Open(t, h.Offset, stored, s); err != nil {
		return f, v, err
	}
	n, err := b.ViewSize(t, block.Abbreviations)
	if err != nil {
		return f, v, Final(err)
	}
	if fill {
		f = t.Env.Cache.Alloc(n)
	}
	built := false
	defer func() { // also when the comparer panics
		if !built && f.Valid() {
			f.Release()
		}
	}()
	mem := []byte(nil)
	if f.Valid() {
		mem = f.Bytes()
	} else if mem, err = s.partMem.Resize(n); err != nil {
		return f, v, err
	}
	if v, err = b.BuildView(t, s, mem, block.Abbreviations); err == nil {
		err = t.Index.checkPart(t.cmp, p, &v)
	}
	built = err == nil
	return f, v, Final(err)
}

// checkPart checks part p, read as v, against the index of parts.
func (x *Index) checkPart(cmp *base.Comparer, p int, v *block.View) error {
	want := &x.parts[p]
	last := v.Len() - 1
	if v.Len() != want.Blocks || cmp.CompareInternal(v.Key(last), v.Trailer(last), x.View.Key(p),
		x.View.Trailer(p)) != 0 {
		return base.Corruptf("table index", "part %d is not what the index says", p)
	}
	if p > 0 && cmp.CompareInternal(v.Key(0), v.Trailer(0), x.View.Key(p-1), x.View.Trailer(p-1)) <=
		0 {
		return base.Corruptf("table index", "part %d does not begin after the part before", p)
	}
	end, err := checkHandles(v, want.from, want.DataEnd, x.trailer, true)
	if err == nil && end != want.DataEnd {
		err = base.Corruptf("table index", "the blocks of part %d end at %d, not at %d", p, end,
			want.DataEnd)
	}
	return err
}

// seek returns the only data block that can hold the first entry at or after (key,
// trailer), Index.Len() when the table ends before it.
func (t *Table) seek(key []byte, trailer base.Trailer, flags sstable.ReadFlags,
	s *Scratch) (int, error) {
	x := &t.Index
	if x.parts == nil {
		return x.SeekGE(t.cmp, key, trailer), nil
	}
	p := x.PartAt(t.cmp, key, trailer)
	if p == len(x.parts) {
		return x.blocks, nil
	}
	f, v, err := t.part(p, flags, s)
	if err != nil {
		return 0, err
	}
	return t.seekIn(p, f, &v, key, trailer), nil
}

// seekIn is seek in part p, which is v and lies in f, if f is Valid. It releases f.
func (t *Table) seekIn(p int, f cache.Frame, v *block.View, key []byte,
	trailer base.Trailer) int {
	defer release(f)
	return t.Index.parts[p].first + v.SeekGE(t.cmp, key, trailer)
}

// seekAlone is seek with a scratch of its own.
func (t *Table) seekAlone(l base.Lookup, flags sstable.ReadFlags) (int, error) {
	s := t.pool.Get()
	defer t.pool.Put(s)
	return t.seek(l.Key(), l.Trailer(), flags, s)
}

// Layout lists the data blocks.
func (t *Table) Layout() (pieces []sstable.Piece, err error) {
	x := &t.Index
	list := func(v *block.View) {
		for i := range v.Len() {
			h := x.handleIn(v, i)
			pieces = append(pieces, sstable.Piece{Name: "data", Offset: h.Offset, Length: h.Length})
		}
	}
	if x.parts == nil {
		list(&x.View)
		return pieces, nil
	}
	s := t.pool.Get()
	defer t.pool.Put(s)
	for p := range x.parts {
		f, v, err := t.part(p, sstable.NoFill, s)
		if err != nil {
			return nil, err
		}
		list(&v)
		if f.Valid() {
			f.Release()
		}
	}
	return pieces, nil
}

// place is where a data block lies in the file, and between which separators its keys lie.
type place struct {
	Handle
	upper base.InternalKey
	lower base.InternalKey // of a block that is not the first
}

// locate finds where data block i lies: s.place.
func (t *Table) locate(i int, flags sstable.ReadFlags, s *Scratch) error {
	x := &t.Index
	if x.parts == nil {
		s.place = place{Handle: x.Handle(i), upper: base.InternalKey{User: x.View.Key(i),
			Trailer: x.View.Trailer(i)}}
		if i > 0 {
			s.place.lower = base.InternalKey{User: x.View.Key(i - 1),
				Trailer: x.View.Trailer(i - 1)}
		}
		return nil
	}
	p := x.partOf(i)
	f, v, err := t.part(p, flags, s)
	if err != nil {
		return err
	}
	if f.Valid() {
		defer f.Release()
	}
	j := i - x.parts[p].first
	upper, lower, lowerTrailer := v.Key(j), []byte(nil), base.Trailer(0)
	switch {
	case j > 0:
		lower, lowerTrailer = v.Key(j-1), v.Trailer(j-1)
	case p > 0:
		lower, lowerTrailer = x.View.Key(p-1), x.View.Trailer(p-1)
	}
	// The part may be evicted before the keys are compared.
	b, err := s.separators.Resize(len(upper) + len(lower))
	if err != nil {
		return err
	}
	n := copy(b, upper)
	copy(b[n:], lower)
	s.place = place{Handle: x.handleIn(&v, j),
		upper: base.InternalKey{User: b[:n], Trailer: v.Trailer(j)},
		lower: base.InternalKey{User: b[n:], Trailer: lowerTrailer}}
	return nil
}

// findPart is Find in an index of parts.
func (t *Table) findPart(l base.Lookup) (sstable.Position, bool) {
	x := &t.Index
	p := x.PartAt(t.cmp, l.Key(), l.Trailer())
	if p == len(x.parts) {
		return sstable.Position(x.blocks), false
	}
	if t.Filter != nil && !t.Filter.Cached(p) {
		return partFlag | filterFlag | sstable.Position(p), true
	}
	if x.slots != nil {
		if f, ok := x.slots.Pin(p); ok {
			v := block.OpenView(f.Bytes())
			return sstable.Position(t.seekIn(p, f, &v, l.Key(), l.Trailer())), true
		}
	}
	return partFlag | sstable.Position(p), true
}

// getAtPart is GetAt of a part.
func (t *Table) getAtPart(p sstable.Position, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	part := p &^ (partFlag | filterFlag)
	if part >= sstable.Position(len(t.Index.parts)) {
		return dst, sstable.Hit{}, false, nil
	}
	if p&filterFlag != 0 {
		ok, err := t.Filter.Admits(int(part), l, flags)
		if err != nil || !ok {
			return dst, sstable.Hit{Position: p}, false, err
		}
		p = partFlag | part
	}
	i, err := t.seekAlone(l, flags)
	if err != nil {
		return dst, sstable.Hit{Position: p}, false, err
	}
	return t.GetAt(sstable.Position(i), l, flags, dst)
}

// prefetchPart hints that the part will be looked at.
func (t *Table) prefetchPart(p sstable.Position) {
	x := &t.Index
	if i := int(p &^ (partFlag | filterFlag)); i < len(x.parts) &&
		(x.slots == nil || !x.slots.Touch(i)) {
		h := x.parts[i].Handle
		t.Src.Prefetch(int64(h.Offset), int64(h.Length))
	}
}

// offsetInPart is OffsetOf where the index has parts. A part that cannot be read is taken for
// one block.
func (t *Table) offsetInPart(key []byte, trailer base.Trailer) uint64 {
	p := t.Index.PartAt(t.cmp, key, trailer)
	if p == len(t.Index.parts) {
		return t.Tail
	}
	s := t.pool.Get()
	defer t.pool.Put(s)
	i, err := t.seek(key, trailer, 0, s)
	if err == nil {
		err = t.locate(i, 0, s)
	}
	if err != nil {
		return t.Index.parts[p].from
	}
	return s.place.Offset
}
