package ldb

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/block"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/sstable"
)

// Get appends the newest visible value of the key to dst. With
// base.ErrWouldBlock, t is the number of the block.
func (r *Reader) Get(l base.Lookup, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	if r.hasFilter && !r.filter.MayContain(l.Hash) {
		return dst, 0, false, nil
	}
	b := r.Find(l)
	if b < 0 || r.hasLDB && !r.ldbFilter.MayContain(r.handle(b).Offset, l.Key()) {
		return dst, 0, false, nil
	}
	value, t, found, err := r.GetAt(b, l, flags, dst)
	if err == base.ErrWouldBlock {
		t = base.Trailer(b)
	}
	return value, t, found, err
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
	b := r.find(l.Key(), base.MaxTrailer)
	return b >= 0 && r.ldbFilter.MayContain(r.handle(b).Offset, l.Key())
}

// Find returns the index of the only block that can hold what Get looks for, -1
// when the table ends before it.
func (r *Reader) Find(l base.Lookup) int { return r.find(l.Key(), l.Trailer()) }

// find returns the index of the only block that can hold the first entry at or
// after (key, t), -1 when the table ends before it.
func (r *Reader) find(key []byte, t base.Trailer) int {
	i := r.index.SeekGE(r.cmp, key, t)
	if i == r.index.Len() {
		return -1
	}
	return i
}

// Prefetch hints that data block i will be looked at, in the cache or the file.
func (r *Reader) Prefetch(i int) {
	if uint(i) >= uint(r.index.Len()) || r.slots != nil && r.slots.Touch(i) {
		return
	}
	h := r.handle(i)
	r.src.Prefetch(int64(h.Offset), int64(h.Size+block.TrailerLen))
}

// GetAt is Get within data block i.
func (r *Reader) GetAt(i int, l base.Lookup, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	if uint(i) >= uint(r.index.Len()) {
		return dst, 0, false, nil
	}
	memoryOnly := flags&sstable.MemoryOnly != 0
	if r.slots != nil {
		var f cache.Frame
		var ok bool
		if memoryOnly {
			f, ok = r.slots.Peek(i) // the read from the file counts the miss
		} else {
			f, ok = r.slots.Lookup(i)
		}
		if ok {
			v := block.OpenView(f.Bytes())
			dst, t, found := r.getIn(&v, l, dst)
			f.Release()
			return dst, t, found, nil
		}
	}
	if memoryOnly {
		return dst, 0, false, base.ErrWouldBlock
	}
	return r.getCold(i, l, flags, dst)
}

func (r *Reader) getIn(v *block.View, l base.Lookup, dst []byte) ([]byte, base.Trailer, bool) {
	at := v.Get(r.cmp, l)
	if at < 0 {
		return dst, 0, false
	}
	t := v.Trailer(at)
	if t.Kind() == base.KindSet {
		dst = append(dst, v.Value(at)...)
	}
	return dst, t, true
}

// getCold is GetAt of a block that is not cached.
func (r *Reader) getCold(i int, l base.Lookup, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	if err := r.bad.find(i); err != nil {
		return dst, 0, false, err
	}
	s := getScratch()
	defer putScratch(s)
	h := r.handle(i)
	stored, err := r.read(&s.file, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return dst, 0, false, err
	}
	if r.slots == nil || flags&(sstable.NoFill|sstable.Private) != 0 {
		// One search pays for no columns.
		v, err := r.buildPrivate(i, stored, s, 0)
		if err != nil {
			return dst, 0, false, err
		}
		dst, t, found := r.getIn(&v, l, dst)
		return dst, t, found, nil
	}
	f, v, err := r.buildCached(i, stored, s)
	if err != nil {
		return dst, 0, false, err
	}
	dst, t, found := r.getIn(&v, l, dst)
	if f.Valid() {
		f.Release()
	}
	return dst, t, found, nil
}

// OffsetOf estimates the file offset at which the key's data begins.
func (r *Reader) OffsetOf(key []byte, t base.Trailer) uint64 {
	if i := r.find(key, t); i >= 0 {
		return r.handle(i).Offset
	}
	return r.metaOff
}
