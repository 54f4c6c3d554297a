package blocktable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/inplace"
)

// seekPart is SeekGE in block i where that costs less than unpacking the block: if it is in no
// cache, and the cache, which is full, does not want it. e then has a few entries, none if all of
// the block is before the key. found is false where the block is to be loaded.
func (s *source) seekPart(i int, key []byte, t base.Trailer,
	e *base.Chunk) (found bool, err error) {
	// A caller that seeks in one block again will probably do so once more.
	if s.chunks || s.memory || !s.t.InPlace || i == s.at || uint(i) >= uint(s.t.Index.Len()) ||
		s.cached && s.t.Slots.Has(i) {
		return false, nil
	}
	b, ok := s.scratch().Block.(PartBlock)
	if !ok {
		return false, nil
	}
	s.release()
	*e = base.Chunk{}
	at, found, err := s.partMapped(i, b, key, t, e)
	if err != nil { // to be read, see package inplace
		if at, found, err = s.partRead(i, b, key, t, e); err != nil {
			return false, err
		}
	}
	if !found {
		return false, nil
	}
	if s.cached {
		s.t.Slots.Missed()
	}
	s.at, s.part = i, true
	s.lo, s.hi, s.n = at, at+e.Len(), b.Len()
	return true, nil
}

// partMapped is seekPart in the mapped file. After any error the block is to be read.
func (s *source) partMapped(i int, b PartBlock, key []byte, t base.Trailer,
	e *base.Chunk) (at int, found bool, err error) {
	h, ok := s.t.handle(i)
	if !ok {
		return 0, false, base.ErrWouldBlock
	}
	stored, ok := s.t.mapped.Block(i, h.Offset, h.Length)
	if !ok {
		return 0, false, base.ErrWouldBlock
	}
	defer s.t.mapped.Catch(inplace.Begin(), &err)
	s.s.Verified = true
	size, err := b.Open(s.t, h.Offset, stored, s.s)
	if err != nil || s.fill && s.t.Slots.AdmitSearched(i, size) {
		return 0, false, err
	}
	at, _, err = b.Part(s.t, key, t, s.s, e)
	if err == nil && !s.t.mapped.Intact() {
		err = base.ErrWouldBlock
	}
	return at, true, err
}

// partRead is seekPart of a block that is read.
func (s *source) partRead(i int, b PartBlock, key []byte, t base.Trailer,
	e *base.Chunk) (at int, found bool, err error) {
	if err := s.t.bad.find(i); err != nil {
		return 0, false, err
	}
	if err := s.t.locate(i, s.flags, s.s); err != nil {
		return 0, false, err
	}
	stored, err := s.fetch(i, jump)
	if err != nil {
		return 0, false, err
	}
	size, err := s.t.openStored(i, stored, s.s)
	if err != nil {
		return 0, false, err
	}
	if s.fill && s.t.Slots.Admit(i, size) {
		s.frame, s.view, err = s.t.cachedView(i, s.s)
		if err == nil {
			s.t.Slots.Missed()
			s.at = i // load shows it
		}
		return 0, false, err
	}
	at, ends, err := b.Part(s.t, key, t, s.s, e)
	if err == nil {
		err = s.s.place.checkBounds(s.t.cmp, i, &ends)
	}
	if err != nil {
		return 0, false, s.t.damaged(i, s.s, Final(err))
	}
	s.t.mapped.SetVerified(i)
	return at, true, nil
}

// rest hands out entries [lo, hi) of the block of which seekPart handed out others.
func (s *source) rest(lo, hi int, e *base.Chunk) (bool, error) {
	ok, err := s.load(s.at, jump, e)
	if !ok {
		return ok, err
	}
	if hi > e.Len() { // the block was another one when it was searched
		return false,
			s.fail(e, base.Corruptf("table block", "%d entries instead of %d", e.Len(), hi))
	}
	e.KeyOff, e.ValOff, e.ValEnd, e.Trailers =
		e.KeyOff[lo:hi], e.ValOff[lo:hi], e.ValEnd[lo:hi], e.Trailers[lo:hi]
	if e.Codecs != nil {
		e.Codecs = e.Codecs[lo:hi]
	}
	s.lo, s.hi = lo, hi
	return true, nil
}
