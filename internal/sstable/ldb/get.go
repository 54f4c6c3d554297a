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
	i := r.find(l.Key(), l.Trailer())
	return sstable.Position(i), i >= 0
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
	i := int(p)
	if f, ok := r.cachedBlock(i, flags); ok {
		v := block.OpenView(f.Bytes())
		dst, hit, found = r.getIn(i, &v, l, dst)
		f.Release()
		return dst, hit, found, nil
	}
	if flags&sstable.MemoryOnly != 0 {
		return dst, sstable.Hit{Position: p}, false, base.ErrWouldBlock
	}
	return r.getCold(i, l, flags, dst)
}

// getCold is GetAt of a block that is not cached.
func (r *Reader) getCold(i int, l base.Lookup, flags sstable.ReadFlags, dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	s := getScratch()
	defer putScratch(s)
	f, v, err := r.readBlock(i, flags, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	dst, hit, found = r.getIn(i, &v, l, dst)
	if f.Valid() {
		f.Release()
	}
	return dst, hit, found, nil
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
			dst, hit = r.take(i, &v, at, dst)
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

// cachedBlock pins data block i if it is in the cache.
func (r *Reader) cachedBlock(i int, flags sstable.ReadFlags) (cache.Frame, bool) {
	if r.slots == nil {
		return cache.Frame{}, false
	}
	if flags&sstable.MemoryOnly != 0 {
		return r.slots.Peek(i) // the read from the file counts the miss
	}
	return r.slots.Lookup(i)
}

// anyBlock returns data block i, out of the cache or the file; see readBlock.
func (r *Reader) anyBlock(i int, flags sstable.ReadFlags, s *scratch) (cache.Frame, block.View, error) {
	if f, ok := r.cachedBlock(i, flags); ok {
		return f, block.OpenView(f.Bytes()), nil
	}
	if flags&sstable.MemoryOnly != 0 {
		return cache.Frame{}, block.View{}, base.ErrWouldBlock
	}
	return r.readBlock(i, flags, s)
}

// readBlock reads data block i from the file. The view lies in the frame, or in s
// where the frame is not Valid.
func (r *Reader) readBlock(i int, flags sstable.ReadFlags, s *scratch) (cache.Frame, block.View, error) {
	if err := r.bad.find(i); err != nil {
		return cache.Frame{}, block.View{}, err
	}
	h := r.handle(i)
	stored, err := r.read(&s.file, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return cache.Frame{}, block.View{}, err
	}
	if r.slots == nil || flags&(sstable.NoFill|sstable.Private) != 0 {
		v, err := r.buildPrivate(i, stored, s, 0) // one search pays for no columns
		return cache.Frame{}, v, err
	}
	return r.buildCached(i, stored, s)
}

// getIn looks into the view of data block i.
func (r *Reader) getIn(i int, v *block.View, l base.Lookup, dst []byte) ([]byte, sstable.Hit, bool) {
	at := v.Get(r.cmp, l)
	if at < 0 {
		return dst, sstable.Hit{}, false
	}
	dst, hit := r.take(i, v, at, dst)
	return dst, hit, true
}

// take appends the value of entry at of data block i, if it has one.
func (r *Reader) take(i int, v *block.View, at int, dst []byte) ([]byte, sstable.Hit) {
	t := v.Trailer(at)
	if t.Kind().HasValue() {
		dst = append(dst, v.Value(at)...)
	}
	return dst, sstable.Hit{Trailer: t, Position: sstable.Position(i)}
}

// OffsetOf estimates the file offset at which the key's data begins.
func (r *Reader) OffsetOf(key []byte, t base.Trailer) uint64 {
	if i := r.find(key, t); i >= 0 {
		return r.handle(i).Offset
	}
	return r.metaOff
}
