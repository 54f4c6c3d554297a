package blocktable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// open reads data block i from the file and opens it in s.
func (t *Table) open(i int, flags sstable.ReadFlags, s *Scratch) (size int, err error) {
	if err := t.locate(i, flags, s); err != nil {
		return 0, err
	}
	stored, err := t.stored(i, s)
	if err != nil {
		return 0, err
	}
	return t.openStored(i, stored, s)
}

// openStored opens data block i, located and stored as given, in s.
func (t *Table) openStored(i int, stored []byte, s *Scratch) (size int, err error) {
	s.Verified = false
	size, err = s.Block.Open(t, s.place.Offset, stored, s)
	if err != nil {
		err = t.damaged(i, s, err)
	}
	return size, err
}

// fills reports whether reads with these flags put blocks into the cache.
func (t *Table) fills(flags sstable.ReadFlags) bool {
	return t.Slots != nil && flags&(sstable.NoFill|sstable.Private) == 0
}

// viewOf makes the view of data block i, open in s: in the cache, or in s where the
// frame is not Valid.
func (t *Table) viewOf(i int, flags sstable.ReadFlags,
	s *Scratch) (cache.Frame, block.View, error) {
	if !t.fills(flags) {
		v, err := t.privateView(i, s) // one search pays for no columns
		return cache.Frame{}, v, err
	}
	return t.cachedView(i, s)
}

// build makes the view of data block i, open in s, in mem and checks it against the
// index.
func (t *Table) build(i int, mem []byte, s *Scratch, cols block.Columns) (block.View, error) {
	v, err := s.Block.BuildView(t, s, mem, cols)
	if err == nil {
		ends := endsOf(&v)
		err = s.place.checkBounds(t.cmp, i, &ends)
	}
	if err != nil {
		return block.View{}, t.damaged(i, s, Final(err))
	}
	t.mapped.SetVerified(i)
	return v, nil
}

// packedChunk makes e data block i, open in s as p.
func (t *Table) packedChunk(i int, p PackedBlock, s *Scratch, e *base.Chunk) error {
	err := p.Chunk(t, s, e)
	if err == nil {
		ends := Ends{Count: e.Len()}
		if last := ends.Count - 1; last >= 0 {
			ends.First, ends.FirstTrailer = e.Key(0), e.Trailers[0]
			ends.Last, ends.LastTrailer = e.Key(last), e.Trailers[last]
		}
		err = s.place.checkBounds(t.cmp, i, &ends)
	}
	if err != nil {
		return t.damaged(i, s, Final(err))
	}
	return nil
}

// privateView makes the view of data block i, open in s, in s.
func (t *Table) privateView(i int, s *Scratch) (block.View, error) {
	n, err := s.Block.ViewSize(t, 0)
	if err != nil {
		return block.View{}, t.damaged(i, s, Final(err))
	}
	mem, err := s.View.Resize(n)
	if err != nil {
		return block.View{}, err
	}
	return t.build(i, mem, s, 0)
}

// cachedView makes the view of data block i, open in s, in a frame and puts it into the
// cache. Where there is no memory for a frame, the frame is not Valid, and the view
// lies in s.
func (t *Table) cachedView(i int, s *Scratch) (cache.Frame, block.View, error) {
	f, err := t.frame(i, s)
	switch {
	case err != nil:
		return cache.Frame{}, block.View{}, err
	case !f.Valid():
		v, err := t.privateView(i, s)
		return f, v, err
	}
	return f, block.OpenView(f.Bytes()), nil
}

// frame is cachedView that leaves the frame not Valid where there is no memory.
func (t *Table) frame(i int, s *Scratch) (cache.Frame, error) {
	n, err := s.Block.ViewSize(t, block.PointLookup)
	if err != nil {
		return cache.Frame{}, t.damaged(i, s, Final(err))
	}
	f := t.Env.Cache.Alloc(n)
	if !f.Valid() {
		return f, nil
	}
	built := false
	defer func() { // also when the comparer panics
		if !built {
			f.Release()
		}
	}()
	if _, err := t.build(i, f.Bytes(), s, block.PointLookup); err != nil {
		return cache.Frame{}, err
	}
	built = true
	return t.Slots.Publish(i, f), nil
}

// warmStep blocks take about 200 us.
const warmStep = 64

// Cached is how many of the table's blocks are in the block cache.
func (t *Table) Cached() int {
	if t.Slots == nil {
		return 0
	}
	return t.Slots.Cached()
}

// Warm reads the blocks into the cache, up to room bytes of them.
func (t *Table) Warm(room int64, stop func() error) (used int64, err error) {
	if t.Slots == nil {
		return 0, nil
	}
	// Not cached: what is there already would count as a hit.
	s := &source{t: t, at: -1, chunks: true, fill: true, prefetched: -1}
	defer s.Close()
	var e base.Chunk
	for i := range t.Index.Len() {
		if used >= room {
			break
		}
		if i%warmStep == 0 {
			if err := stop(); err != nil {
				return used, err
			}
		}
		if _, err := s.load(i, 1, &e); err != nil {
			return used, err
		}
		if !s.frame.Valid() {
			return used, nil // no memory for more
		}
		used += int64(len(s.frame.Bytes()))
	}
	return used, nil
}
