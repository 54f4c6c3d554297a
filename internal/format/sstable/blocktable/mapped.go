package blocktable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/inplace"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Map maps the file where it can be, so that blocks are searched in place. footer is what the
// file ends with. It is called after Start.
func (t *Table) Map(footer []byte) {
	if t.InPlace {
		t.mapped = inplace.Open(t.Src, t.Env.Name, t.Index.Len(), footer, t.Env.OnFault)
	}
}

// getMapped is GetAt in the mapped file: no system call, no copy but the value, and no View
// unless the cache wants one. After any error the block is to be read.
func (t *Table) getMapped(p sstable.Position, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	i := int(p)
	h, ok := t.handle(i)
	if !ok {
		return dst, sstable.Hit{}, false, base.ErrWouldBlock
	}
	stored, ok := t.mapped.Block(i, h.Offset, h.Length)
	if !ok {
		return dst, sstable.Hit{}, false, base.ErrWouldBlock
	}
	s := t.pool.Get()
	defer t.pool.Put(s)
	defer t.mapped.Catch(inplace.Begin(), &err)
	s.Verified = true
	size, err := s.Block.Open(t, h.Offset, stored, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	if t.fills(flags) && t.Slots.AdmitSearched(i, size) {
		return t.admitMapped(p, l, flags, s, dst)
	}
	value, trailer, found, _, err := s.Block.Search(t, l, s, dst)
	switch {
	case err != nil:
	case !t.mapped.Intact():
		err = base.ErrWouldBlock
	case !found:
		return dst, sstable.Hit{Searched: sstable.SearchedCached}, false, nil
	}
	return value, sstable.Hit{Trailer: trailer, Position: p}, found, err
}

// admitMapped is getMapped of a block that goes into the cache. Its View is made of a copy,
// which does not change meanwhile, and is checked like one that was read.
func (t *Table) admitMapped(p sstable.Position, l base.Lookup, flags sstable.ReadFlags, s *Scratch,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	i := int(p)
	if err := t.locate(i, flags, s); err != nil {
		return dst, sstable.Hit{}, false, err
	}
	stored, err := t.copyMapped(i, s.place.Handle, s)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	if _, err = t.openStored(i, stored, s); err != nil {
		return dst, sstable.Hit{}, false, err
	}
	f, err := t.frame(i, s)
	if err == nil && !f.Valid() {
		err = base.ErrNoMemory
	}
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	v := block.OpenView(f.Bytes())
	value, hit, found = t.getInView(p, f, &v, l, dst)
	return value, hit, found, nil
}

// copyMapped copies block i out of the mapped file. After any error the block is to be read.
func (t *Table) copyMapped(i int, h Handle, s *Scratch) (b []byte, err error) {
	mapped, ok := t.mapped.Block(i, h.Offset, h.Length)
	if !ok {
		return nil, base.ErrWouldBlock
	}
	if b, err = s.File.Resize(len(mapped)); err != nil {
		return nil, err
	}
	defer t.mapped.Catch(inplace.Begin(), &err)
	copy(b, mapped)
	if !t.mapped.Intact() {
		err = base.ErrWouldBlock
	}
	return b, err
}
