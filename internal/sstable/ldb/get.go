package ldb

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/block"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/sstable"
)

// A Position is the number of a data block: the index is in memory as a whole.

// Get appends the newest visible value of the key to dst. With
// base.ErrWouldBlock, GetAt goes on from hit.Position.
func (r *Reader) Get(l base.Lookup, flags sstable.ReadFlags, dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if r.hasFilter && !r.filter.MayContain(l.Hash) {
		return dst, sstable.Hit{}, false, nil
	}
	key := l.Key()
	b := r.find(key, l.Trailer())
	if b < 0 || r.hasLDB && !r.ldbFilter.MayContain(r.handle(b).Offset, key) {
		return dst, sstable.Hit{}, false, nil
	}
	return r.GetAt(sstable.Position(b), l, flags, dst)
}

// MayContain reports whether the filter, if any, admits the key.
func (r *Reader) MayContain(l base.Lookup) bool {
	if r.hasFilter {
		return r.filter.MayContain(l.Hash)
	}
	if !r.hasLDB {
		return true
	}
	// The block of the newest version holds the key if any block does.
	key := l.Key()
	b := r.find(key, base.MaxTrailer)
	return b >= 0 && r.ldbFilter.MayContain(r.handle(b).Offset, key)
}

// Find returns the only data block that can hold what Get looks for. It reports
// false when the table ends before it.
func (r *Reader) Find(l base.Lookup) (sstable.Position, bool) {
	i := r.index.SeekGE(r.cmp, l.Key(), l.Trailer())
	return sstable.Position(i), i < r.index.Len()
}

// find returns the index of the only block that can hold the first entry at or
// after (key, t), -1 when the table ends before it.
func (r *Reader) find(key []byte, t base.Trailer) int {
	i := r.index.SeekGE(r.cmp, key, t)
	if i == r.index.Len() {
		return -1
	}
	return i
}

// Prefetch hints that the data block will be looked at, in the cache or the file.
func (r *Reader) Prefetch(p sstable.Position) {
	if p >= sstable.Position(r.index.Len()) || r.slots != nil && r.slots.Touch(int(p)) {
		return
	}
	h := r.handle(int(p))
	r.src.Prefetch(int64(h.Offset), int64(h.Size+block.TrailerLen))
}

// GetAt is Get within one data block.
func (r *Reader) GetAt(p sstable.Position, l base.Lookup, flags sstable.ReadFlags, dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if p >= sstable.Position(r.index.Len()) {
		return dst, sstable.Hit{}, false, nil
	}
	memoryOnly := flags&sstable.MemoryOnly != 0
	if r.slots != nil {
		var f cache.Frame
		var ok bool
		if memoryOnly {
			f, ok = r.slots.Peek(int(p)) // the read from the file counts the miss
		} else {
			f, ok = r.slots.Lookup(int(p))
		}
		if ok {
			v := block.OpenView(f.Bytes())
			at := v.Get(r.cmp, l)
			if found = at >= 0; found {
				dst, hit = take(p, &v, at, dst)
			} else {
				hit.Searched = sstable.SearchedCached
			}
			f.Release()
			return dst, hit, found, nil
		}
	}
	if memoryOnly {
		return dst, sstable.Hit{Position: p}, false, base.ErrWouldBlock
	}
	return r.getCold(p, l, flags, dst)
}

// getCold is GetAt of a block that is not cached. The block becomes a View in the
// cache if the cache wants it; else its rows are searched as they are.
func (r *Reader) getCold(p sstable.Position, l base.Lookup, flags sstable.ReadFlags, dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	s := getScratch()
	defer putScratch(s)
	i := int(p)
	stored, err := r.readStored(i, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	if r.cmp.HasAbbrev() {
		raw, limit, err := r.unpack(stored, s)
		if err != nil {
			return dst, sstable.Hit{}, false, r.badBlock(i, stored, err)
		}
		if !r.fills(flags) || !r.slots.Admit(i, len(raw)) {
			return r.getInRows(p, stored, raw, limit, l, s, dst)
		}
		f, err := r.frameOf(i, stored, raw, limit)
		if err != nil {
			return dst, sstable.Hit{}, false, err
		}
		if !f.Valid() { // no memory for it
			return r.getInRows(p, stored, raw, limit, l, s, dst)
		}
		v := block.OpenView(f.Bytes())
		value, hit, found = r.getInView(p, f, &v, l, dst)
		return value, hit, found, nil
	}
	f, v, err := r.viewOf(i, stored, flags, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	value, hit, found = r.getInView(p, f, &v, l, dst)
	return value, hit, found, nil
}

// getInView is GetAt in v, the View of block p, which was read for it. It releases f,
// the frame of v, if f is Valid.
func (r *Reader) getInView(p sstable.Position, f cache.Frame, v *block.View, l base.Lookup, dst []byte) (value []byte, hit sstable.Hit, found bool) {
	at := v.Get(r.cmp, l)
	if found = at >= 0; found {
		dst, hit = take(p, v, at, dst)
	} else {
		hit.Searched = sstable.SearchedRead
	}
	if f.Valid() {
		f.Release()
	}
	return dst, hit, found
}

// getInRows is GetAt in raw, the rows of block p, without a View.
func (r *Reader) getInRows(p sstable.Position, stored, raw []byte, limit int64, l base.Lookup, s *scratch, dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	got, err := block.SearchRows(raw, limit, r.cmp, l, &s.view)
	if err == nil {
		err = r.checkBounds(int(p), &got)
	}
	switch {
	case err != nil:
		return dst, sstable.Hit{}, false, r.badBlock(int(p), stored, final(err))
	case !got.Found:
		return dst, sstable.Hit{Searched: sstable.SearchedRead}, false, nil
	}
	if got.Trailer.Kind().HasValue() {
		dst = append(dst, got.Value...)
	}
	return dst, sstable.Hit{Trailer: got.Trailer, Position: p}, true, nil
}

// GetNext is Get for the newest entry of the key that is older than prev.
func (r *Reader) GetNext(prev sstable.Hit, l base.Lookup, flags sstable.ReadFlags, dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if prev.Trailer == 0 || prev.Position >= sstable.Position(r.index.Len()) {
		return dst, sstable.Hit{}, false, nil
	}
	s := getScratch()
	defer putScratch(s)
	key, t := l.Key(), prev.Trailer-1
	for i, more := int(prev.Position), true; more && i < r.index.Len(); i++ {
		f, v, err := r.anyBlock(i, flags, s)
		if err != nil {
			return dst, sstable.Hit{}, false, err
		}
		at := v.SeekGE(r.cmp, key, t)
		switch more = at == v.Len(); {
		case more:
			// The key goes on in the next block only if it is what keeps them apart.
			more = r.cmp.Cmp(r.index.Key(i), key) == 0
		case r.cmp.Cmp(v.Key(at), key) == 0:
			dst, hit = take(sstable.Position(i), &v, at, dst)
			found = true
		}
		if f.Valid() {
			f.Release()
		}
	}
	return dst, hit, found, nil
}

// RangeDels is nil: the format has no range tombstones.
func (r *Reader) RangeDels(sstable.ReadFlags) base.Source { return nil }

// anyBlock returns data block i, out of the cache or the file; see readBlock.
func (r *Reader) anyBlock(i int, flags sstable.ReadFlags, s *scratch) (cache.Frame, block.View, error) {
	memoryOnly := flags&sstable.MemoryOnly != 0
	if r.slots != nil {
		// A miss of the cache is counted once.
		lookup := r.slots.Lookup
		if memoryOnly {
			lookup = r.slots.Peek
		}
		if f, ok := lookup(i); ok {
			return f, block.OpenView(f.Bytes()), nil
		}
	}
	if memoryOnly {
		return cache.Frame{}, block.View{}, base.ErrWouldBlock
	}
	return r.readBlock(i, flags, s)
}

// readBlock reads data block i from the file. The view lies in the frame, or in s
// where the frame is not Valid.
func (r *Reader) readBlock(i int, flags sstable.ReadFlags, s *scratch) (cache.Frame, block.View, error) {
	stored, err := r.readStored(i, s)
	if err != nil {
		return cache.Frame{}, block.View{}, err
	}
	return r.viewOf(i, stored, flags, s)
}

// readStored reads data block i from the file, as stored, with its trailer.
func (r *Reader) readStored(i int, s *scratch) ([]byte, error) {
	if err := r.bad.find(i); err != nil {
		return nil, err
	}
	h := r.handle(i)
	return r.read(&s.file, h.Offset, h.Size+block.TrailerLen)
}

// fills reports whether reads with these flags put blocks into the cache.
func (r *Reader) fills(flags sstable.ReadFlags) bool {
	return r.slots != nil && flags&(sstable.NoFill|sstable.Private) == 0
}

// viewOf makes the view of data block i, stored as given: in the cache, or in s where
// the frame is not Valid.
func (r *Reader) viewOf(i int, stored []byte, flags sstable.ReadFlags, s *scratch) (cache.Frame, block.View, error) {
	if !r.fills(flags) {
		v, err := r.buildPrivate(i, stored, s, 0) // one search pays for no columns
		return cache.Frame{}, v, err
	}
	return r.buildCached(i, stored, s)
}

// take appends the value of entry at, if it has one; v is the block at p.
func take(p sstable.Position, v *block.View, at int, dst []byte) ([]byte, sstable.Hit) {
	t := v.Trailer(at)
	if t.Kind().HasValue() {
		dst = append(dst, v.Value(at)...)
	}
	return dst, sstable.Hit{Trailer: t, Position: p}
}

// OffsetOf estimates the file offset at which the key's data begins.
func (r *Reader) OffsetOf(key []byte, t base.Trailer) uint64 {
	if i := r.find(key, t); i >= 0 {
		return r.handle(i).Offset
	}
	return r.metaOff
}
