package blocktable

import (
	"bytes"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// A Position is the number of a data block or, of an index that is cut into parts, of a part.

// Find returns the only data block that can hold what Get looks for. It reports
// false when the table ends before it.
func (t *Table) Find(l base.Lookup) (sstable.Position, bool) {
	if t.Index.parts != nil {
		return t.findPart(l)
	}
	i := t.Index.SeekGE(t.cmp, l.Key(), l.Trailer())
	return sstable.Position(i), i < t.Index.Len()
}

// Prefetch hints that the data block will be looked at, in the cache or the file.
func (t *Table) Prefetch(p sstable.Position) {
	if p&partFlag != 0 {
		t.prefetchPart(p)
		return
	}
	if p >= sstable.Position(t.Index.Len()) || t.Slots != nil && t.Slots.Touch(int(p)) {
		return
	}
	h, ok := t.handle(int(p))
	if !ok {
		return
	}
	if t.mapped.Prefetch(int(p), h.Offset, h.Length) {
		return
	}
	t.Src.Prefetch(int64(h.Offset), int64(h.Length))
}

// GetAt is Get within one data block.
func (t *Table) GetAt(p sstable.Position, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if p >= sstable.Position(t.Index.Len()) {
		if p&partFlag != 0 {
			return t.getAtPart(p, l, flags, dst)
		}
		return dst, sstable.Hit{}, false, nil
	}
	memoryOnly := flags&sstable.MemoryOnly != 0
	if t.Slots != nil {
		var f cache.Frame
		var ok bool
		if memoryOnly {
			f, ok = t.Slots.Peek(int(p)) // the read from the file counts the miss
		} else {
			f, ok = t.Slots.Lookup(int(p))
		}
		if ok {
			value, hit, found = t.GetPinned(f, p, l, dst)
			return value, hit, found, nil
		}
	}
	if t.mapped != nil {
		if value, hit, found, err = t.getMapped(p, l, flags, dst); err == nil {
			if memoryOnly && t.Slots != nil {
				t.Slots.Missed()
			}
			return value, hit, found, nil
		}
	}
	if memoryOnly {
		return dst, sstable.Hit{Position: p}, false, base.ErrWouldBlock
	}
	return t.getCold(p, l, flags, dst)
}

// Pin pins data block p if it is cached.
func (t *Table) Pin(p sstable.Position, l base.Lookup) (sstable.Pinned, bool) {
	if p >= sstable.Position(t.Index.Len()) || t.Slots == nil {
		return sstable.Pinned{}, false
	}
	f, ok := t.Slots.Peek(int(p)) // GetAt counts the miss
	if ok {
		v := block.OpenView(f.Bytes())
		v.PrefetchEntry(t.cmp, l)
	}
	return f, ok
}

// GetPinned is GetAt in the data block p that Pin returned.
func (t *Table) GetPinned(f sstable.Pinned, p sstable.Position, l base.Lookup,
	dst []byte) (value []byte, hit sstable.Hit, found bool) {
	if !t.cmp.BuiltIn() {
		return t.getPinnedBy(f, p, l, dst)
	}
	v := block.OpenView(f.Bytes())
	at := v.Get(t.cmp, l)
	if found = at >= 0; found {
		dst, hit = take(p, &v, at, dst)
	} else {
		hit.Searched = sstable.SearchedCached
	}
	f.Release()
	return dst, hit, found
}

// getPinnedBy is GetPinned with a comparer of the program, which may panic.
func (t *Table) getPinnedBy(f sstable.Pinned, p sstable.Position, l base.Lookup,
	dst []byte) (value []byte, hit sstable.Hit, found bool) {
	defer f.Release()
	value, hit, found = t.Entry(f, p, l)
	return append(dst, value...), hit, found
}

// release releases a frame if it is Valid. It is deferred where a comparer is called, which may
// panic.
func release(f cache.Frame) {
	if f.Valid() {
		f.Release()
	}
}

// Entry is GetPinned that releases nothing: the value lies in f.
func (t *Table) Entry(f sstable.Pinned, p sstable.Position,
	l base.Lookup) (value []byte, hit sstable.Hit, found bool) {
	v := block.OpenView(f.Bytes())
	at := v.Get(t.cmp, l)
	if at < 0 {
		return nil, sstable.Hit{Searched: sstable.SearchedCached}, false
	}
	hit = sstable.Hit{Trailer: v.Trailer(at), Position: p}
	if hit.Trailer.Kind().HasValue() {
		value = v.Value(at)
	}
	return value, hit, true
}

// getCold is GetAt of a block that is not cached. The block becomes a View in the
// cache if the cache wants it; else it is searched as it is.
func (t *Table) getCold(p sstable.Position, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	s := t.pool.Get()
	defer t.pool.Put(s)
	i := int(p)
	size, err := t.open(i, flags, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	if t.InPlace {
		if !t.fills(flags) || !t.Slots.Admit(i, size) {
			return t.getInPlace(p, l, s, dst)
		}
		f, err := t.frame(i, s)
		if err != nil {
			return dst, sstable.Hit{}, false, err
		}
		if !f.Valid() { // no memory for it
			return t.getInPlace(p, l, s, dst)
		}
		v := block.OpenView(f.Bytes())
		value, hit, found = t.getInView(p, f, &v, l, dst)
		return value, hit, found, nil
	}
	f, v, err := t.viewOf(i, flags, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	value, hit, found = t.getInView(p, f, &v, l, dst)
	return value, hit, found, nil
}

// getInView is GetAt in v, the View of block p, which was read for it. It releases f,
// the frame of v, if f is Valid.
func (t *Table) getInView(p sstable.Position, f cache.Frame, v *block.View, l base.Lookup,
	dst []byte) (value []byte, hit sstable.Hit, found bool) {
	defer release(f)
	at := v.Get(t.cmp, l)
	if found = at >= 0; found {
		dst, hit = take(p, v, at, dst)
	} else {
		hit.Searched = sstable.SearchedRead
	}
	return dst, hit, found
}

// getInPlace is GetAt in block p, open in s, without a View.
func (t *Table) getInPlace(p sstable.Position, l base.Lookup, s *Scratch,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	value, trailer, found, ends, err := s.Block.Search(t, l, s, dst)
	if err == nil {
		err = s.place.checkBounds(t.cmp, int(p), &ends)
	}
	switch {
	case err != nil:
		return dst, sstable.Hit{}, false, t.damaged(int(p), s, Final(err))
	}
	t.mapped.SetVerified(int(p))
	if !found {
		return dst, sstable.Hit{Searched: sstable.SearchedRead}, false, nil
	}
	return value, sstable.Hit{Trailer: trailer, Position: p}, true, nil
}

// GetNext is Get for the newest entry of the key that is older than prev.
func (t *Table) GetNext(prev sstable.Hit, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if prev.Trailer == 0 || prev.Position >= sstable.Position(t.Index.Len()) {
		return dst, sstable.Hit{}, false, nil
	}
	s := t.pool.Get()
	defer t.pool.Put(s)
	key, trailer := l.Key(), prev.Trailer-1
	for i, more := int(prev.Position), true; more && i < t.Index.Len(); i++ {
		dst, hit, found, more, err = t.getNextIn(i, key, trailer, flags, s, dst)
		if err != nil {
			return dst, sstable.Hit{}, false, err
		}
	}
	return dst, hit, found, nil
}

// getNextIn is GetNext in data block i: of the first entry at or after (key, trailer). more says
// that the next block may have it.
func (t *Table) getNextIn(i int, key []byte, trailer base.Trailer, flags sstable.ReadFlags,
	s *Scratch, dst []byte) (value []byte, hit sstable.Hit, found, more bool, err error) {
	f, v, err := t.anyBlock(i, flags, s)
	if err != nil {
		return dst, hit, false, false, err
	}
	defer release(f)
	at := v.SeekGE(t.cmp, key, trailer)
	switch {
	case at == v.Len():
		// The key goes on in the next block only if it is what keeps them apart.
		if err = t.locate(i, flags, s); err == nil {
			more = t.cmp.Cmp(s.place.upper.User, key) == 0
		}
	case t.cmp.Cmp(v.Key(at), key) == 0:
		dst, hit = take(sstable.Position(i), &v, at, dst)
		found = true
	}
	return dst, hit, found, more, err
}

// handle returns where data block i lies if that is in memory.
func (t *Table) handle(i int) (Handle, bool) {
	x := &t.Index
	if x.parts == nil {
		return x.Handle(i), true
	}
	p := x.partOf(i)
	if x.slots != nil {
		if f, ok := x.slots.Pin(p); ok {
			v := block.OpenView(f.Bytes())
			h := x.handleIn(&v, i-x.parts[p].first)
			f.Release()
			return h, true
		}
	}
	return Handle{}, false
}

// anyBlock returns data block i, out of the cache or the file. The view lies in the
// frame, or in s where the frame is not Valid.
func (t *Table) anyBlock(i int, flags sstable.ReadFlags,
	s *Scratch) (cache.Frame, block.View, error) {
	memoryOnly := flags&sstable.MemoryOnly != 0
	if t.Slots != nil {
		// A miss of the cache is counted once.
		lookup := t.Slots.Lookup
		if memoryOnly {
			lookup = t.Slots.Peek
		}
		if f, ok := lookup(i); ok {
			return f, block.OpenView(f.Bytes()), nil
		}
	}
	if memoryOnly {
		return cache.Frame{}, block.View{}, base.ErrWouldBlock
	}
	if _, err := t.open(i, flags, s); err != nil {
		return cache.Frame{}, block.View{}, err
	}
	return t.viewOf(i, flags, s)
}

// take appends the value of entry at, if it has one; v is the block at p.
func take(p sstable.Position, v *block.View, at int, dst []byte) ([]byte, sstable.Hit) {
	t := v.Trailer(at)
	if t.Kind().HasValue() {
		dst = append(dst, v.Value(at)...)
	}
	return dst, sstable.Hit{Trailer: t, Position: p}
}

// SplitKeys returns keys of the index.
func (t *Table) SplitKeys(n int) (keys [][]byte) {
	blocks := t.Index.Len()
	n = min(n, blocks)
	for k := 1; k < n; k++ {
		key := t.keyAt(t.Tail * uint64(k) / uint64(n))
		if len(keys) == 0 || t.cmp.Cmp(key, keys[len(keys)-1]) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// keyAt returns the separator of the block that has this offset of the data, or, where a part of
// the index cannot be read, of the part's last one.
func (t *Table) keyAt(off uint64) []byte {
	x := &t.Index
	if x.parts == nil {
		return x.keyAt(&x.View, off)
	}
	p := sort.Search(len(x.parts)-1, func(p int) bool { return x.parts[p].DataEnd >= off })
	s := t.pool.Get()
	defer t.pool.Put(s)
	f, v, err := t.part(p, 0, s)
	if err != nil {
		return bytes.Clone(x.View.Key(p))
	}
	if f.Valid() {
		defer f.Release()
	}
	return x.keyAt(&v, off)
}

// keyAt is the separator in v of the block that has this offset, or of the last one.
func (x *Index) keyAt(v *block.View, off uint64) []byte {
	i := sort.Search(v.Len()-1, func(i int) bool { h := x.handleIn(v, i); return h.End() >= off })
	return bytes.Clone(v.Key(i))
}

// OffsetOf estimates the file offset at which the key's data begins.
func (t *Table) OffsetOf(key []byte, trailer base.Trailer) uint64 {
	x := &t.Index
	if x.parts != nil {
		return t.offsetInPart(key, trailer)
	}
	if i := x.SeekGE(t.cmp, key, trailer); i < x.Len() {
		return x.Handle(i).Offset
	}
	return t.Tail
}
