package blocktable

import (
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	// readAhead is the most that a source reads at once.
	readAhead = 256 << 10
	// firstAhead is readAheadSize of the first sequential read of a scan.
	firstAhead = 16 << 10
)

// source hands out one data block per chunk.
type source struct {
	t      *Table
	cached bool // look into the cache
	fill   bool // put blocks that were read into the cache
	scan   bool // read ahead, twice as much each time
	chunks bool // read ahead, readAhead bytes each time
	memory bool // read nothing
	flags  sstable.ReadFlags

	at         int // block handed out, -1 when not positioned
	prefetched int // block that PrefetchSeek found, or -1
	view       block.View
	frame      cache.Frame // of view; not valid when view lies in s
	packed     PackedBlock // the block, in place of view; or nil
	columns    base.Chunk  // of packed

	// Entries [lo, hi) of the block's n were handed out. part says that no more of it is
	// unpacked, see seekPart.
	part      bool
	lo, hi, n int

	file          vfs.ReadFile // of the source alone; nil: the table's
	s             *Scratch     // taken with the first read
	chunk         []byte       // bytes of the file in s.file
	chunkOff      uint64
	readAheadSize uint64 // bytes that the next read of a scan asks for; 0 after a jump

	cover sstable.Coverage // with chunks
}

var (
	_ base.SeekPrefetcher = (*source)(nil)
	_ sstable.Covered     = (*source)(nil)
	_ sstable.Redirected  = (*source)(nil)
)

// sources are closed ones, for NewSource to use again.
var sources = sync.Pool{New: func() any { return new(source) }}

// NewSource iterates over the table. After Close the source must not be
// touched.
func (t *Table) NewSource(flags sstable.ReadFlags) base.Source {
	s := sources.Get().(*source)
	*s = source{t: t, at: -1, prefetched: -1}
	s.chunks = flags&sstable.Private != 0
	s.cached = !s.chunks && t.Slots != nil
	s.fill = s.cached && flags&sstable.NoFill == 0
	s.flags = flags
	s.scan = !s.chunks && flags&sstable.Scan != 0
	s.memory = flags&sstable.MemoryOnly != 0
	return s
}

// ReadFrom has the source read by f, and close it.
func (s *source) ReadFrom(f vfs.ReadFile) { s.file = f }

// from is what the source reads by.
func (s *source) from() vfs.ReadFile {
	if s.file != nil {
		return s.file
	}
	return s.t.Src
}

// jump is the direction of a load that does not continue the one before.
const jump = 0

// load makes e show block i, which lies dir (1, -1 or jump) from the last one.
// It reports false when there is no such block.
func (s *source) load(i, dir int, e *base.Chunk) (bool, error) {
	if i >= 0 && i == s.at && !s.part {
		s.show(e)
		e.FirstIsNewest = false
		return true, nil
	}
	s.release()
	*e = base.Chunk{}
	if uint(i) >= uint(s.t.Index.Len()) {
		return false, nil
	}
	if s.cached {
		if f, ok := s.t.Slots.Lookup(i); ok {
			s.frame, s.view = f, block.OpenView(f.Bytes())
		}
	}
	if !s.frame.Valid() {
		if err := s.readBlock(i, dir); err != nil {
			return false, err
		}
	}
	s.show(e)
	s.at = i
	e.FirstIsNewest = dir < 0 && s.t.Index.beginsKey(s.t.cmp, i, e)
	switch {
	case s.chunks:
		s.count(i, dir, e.Len())
	case s.cached && dir != jump:
		s.t.Slots.Touch(i + dir) // soon wanted
		if dir > 0 {
			// A merge compares the last key with the first one of the next block, when both are
			// two cache misses away: an entry of a scan costs a sixth less.
			s.view.Prefetch(s.n - 1)
		}
	}
	return true, nil
}

// count notes that n entries of block i were handed out.
func (s *source) count(i, dir, n int) {
	if dir != 1 || i != s.cover.To {
		s.cover = sstable.Coverage{From: i, To: i}
	}
	s.cover.To++
	s.cover.Entries += uint64(n)
}

// Coverage is kept for a Private source.
func (s *source) Coverage() sstable.Coverage {
	c := s.cover
	c.Blocks, c.Total = s.t.Index.Len(), s.t.Properties.Entries
	return c
}

// show makes e the block.
func (s *source) show(e *base.Chunk) {
	if s.packed != nil {
		*e = s.columns
	} else {
		s.view.Chunk(e)
	}
	s.lo, s.hi, s.n = 0, e.Len(), e.Len()
}

// seekIn returns the index in the block of the first entry at or after (key, t).
func (s *source) seekIn(key []byte, t base.Trailer) int {
	if s.packed != nil {
		return s.packed.SeekGE(s.t, key, t)
	}
	return s.view.SeekGE(s.t.cmp, key, t)
}

// readBlock reads block i from the file.
func (s *source) readBlock(i, dir int) error {
	if s.memory {
		return base.ErrWouldBlock
	}
	if err := s.t.bad.find(i); err != nil {
		return err
	}
	if err := s.t.locate(i, s.flags, s.scratch()); err != nil {
		return err
	}
	stored, err := s.fetch(i, dir)
	if err != nil {
		return err
	}
	if _, err := s.t.openStored(i, stored, s.s); err != nil {
		return err
	}
	switch {
	case s.fill:
		s.frame, s.view, err = s.t.cachedView(i, s.s)
		return err
	case s.chunks:
		if p, ok := s.s.Block.(PackedBlock); ok {
			s.packed = p
			return s.t.packedChunk(i, p, s.s, &s.columns)
		}
	}
	s.view, err = s.t.privateView(i, s.s)
	return err
}

// scratch returns the source's scratch.
func (s *source) scratch() *Scratch {
	if s.s == nil {
		s.s = s.t.pool.Get()
	}
	return s.s
}

// find returns the block that can hold the first entry at or after (key, t).
func (s *source) find(key []byte, t base.Trailer) (int, error) {
	if s.t.Index.parts == nil {
		return s.t.Index.SeekGE(s.t.cmp, key, t), nil
	}
	return s.t.seek(key, t, s.flags, s.scratch())
}

// fetch returns data block i as stored, out of the chunk last read or of a new
// one.
func (s *source) fetch(i, dir int) ([]byte, error) {
	h := s.s.place.Handle
	lo, hi := h.Offset, h.End()
	if lo >= s.chunkOff && hi <= s.chunkOff+uint64(len(s.chunk)) {
		return s.chunk[lo-s.chunkOff : hi-s.chunkOff], nil
	}
	s.chunk = nil
	if s.chunks || s.scan && dir != jump {
		lo, hi = s.sequential(lo, hi, dir)
	} else {
		s.readAheadSize = 0
		if b, err := s.t.copyMapped(i, h, s.s); err == nil {
			return b, nil
		}
	}
	b, err := s.t.readFrom(s.from(), &s.s.File, lo, hi-lo)
	if err != nil {
		return nil, err
	}
	s.chunk, s.chunkOff = b, lo
	if s.chunks && s.t.Env.Pace != nil {
		s.t.Env.Pace(int64(hi - lo))
	}
	return b[h.Offset-lo : h.End()-lo], nil
}

// sequential extends [lo, hi) to readAheadSize bytes if blocks are read in order, and
// prefetches as many after them. readAheadSize doubles while a scan goes on in one
// direction.
func (s *source) sequential(lo, hi uint64, dir int) (uint64, uint64) {
	switch {
	case s.chunks:
		s.readAheadSize = readAhead
	default:
		s.readAheadSize = min(max(2*s.readAheadSize, firstAhead), readAhead)
	}
	n := s.readAheadSize
	if hi-lo >= n {
		return lo, hi
	}
	if dir < 0 {
		lo = hi - min(hi, n)
		if lo > 0 {
			ahead := min(lo, n)
			s.from().Prefetch(int64(lo-ahead), int64(ahead))
		}
		return lo, hi
	}
	hi = min(lo+n, s.t.DataEnd)
	if ahead := min(s.t.DataEnd-hi, n); ahead > 0 {
		s.from().Prefetch(int64(hi), int64(ahead))
	}
	return lo, hi
}

// fail leaves the source not positioned.
func (s *source) fail(e *base.Chunk, err error) error {
	s.release()
	*e = base.Chunk{}
	return err
}

// release gives up the block handed out.
func (s *source) release() {
	s.releaseFrame()
	s.at, s.part = -1, false
	s.lo, s.hi, s.n = 0, 0, 0
}

func (s *source) releaseFrame() {
	if s.frame.Valid() {
		s.frame.Release()
		s.frame = cache.Frame{}
	}
	s.packed = nil
}

func (s *source) First(e *base.Chunk) (int, error) { return s.firstOf(0, jump, e) }

func (s *source) Last(e *base.Chunk) (int, error) {
	return s.lastOf(s.t.Index.Len()-1, jump, e)
}

// firstOf is the first entry of block i, if there is such a block.
func (s *source) firstOf(i, dir int, e *base.Chunk) (int, error) {
	if ok, err := s.load(i, dir, e); !ok {
		return -1, err
	}
	return 0, nil
}

// lastOf is the last entry of block i, if there is such a block.
func (s *source) lastOf(i, dir int, e *base.Chunk) (int, error) {
	_, err := s.load(i, dir, e)
	return e.Len() - 1, err
}

// PrefetchSeek has the processor fetch what SeekGE(key, t), which is the next call, will
// look at.
func (s *source) PrefetchSeek(key []byte, t base.Trailer) {
	if s.t.Index.parts != nil {
		return
	}
	s.prefetched = s.t.Index.SeekGE(s.t.cmp, key, t)
	if s.cached && s.t.Slots.Touch(s.prefetched) || uint(s.prefetched) >= uint(s.t.Index.Len()) {
		return
	}
	if s.t.mapped != nil {
		h := s.t.Index.Handle(s.prefetched)
		s.t.mapped.Prefetch(s.prefetched, h.Offset, h.Length)
	}
}

func (s *source) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	i := s.prefetched
	if s.prefetched = -1; i < 0 {
		var err error
		if i, err = s.find(key, t); err != nil {
			return -1, s.fail(e, err)
		}
	}
	found, err := s.seekPart(i, key, t, e)
	if err == nil && found && e.Len() == 0 { // the block ends before the key
		i++
		found, err = s.seekPart(i, key, t, e)
	}
	if err != nil {
		return -1, s.fail(e, err)
	}
	if found {
		return 0, nil
	}
	if ok, err := s.load(i, jump, e); !ok {
		return -1, err
	}
	if at := s.seekIn(key, t); at < e.Len() {
		if s.packed == nil {
			s.view.Prefetch(at) // the caller has some work to do before it looks
		}
		return at, nil
	}
	// The block ends before its separator: the next one starts after the key.
	return s.firstOf(i+1, 1, e)
}

func (s *source) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	i, err := s.find(key, t)
	if err != nil {
		return -1, s.fail(e, err)
	}
	if i < s.t.Index.Len() {
		if ok, err := s.load(i, jump, e); !ok {
			return -1, err
		}
		if at := s.seekIn(key, t); at > 0 {
			return at - 1, nil
		}
	}
	return s.lastOf(i-1, -1, e)
}

func (s *source) Next(e *base.Chunk) (bool, error) {
	if s.at < 0 {
		return false, nil
	}
	if s.hi < s.n {
		return s.rest(s.hi, s.n, e)
	}
	return s.load(s.at+1, 1, e)
}

func (s *source) Prev(e *base.Chunk) (bool, error) {
	if s.at < 0 {
		return false, nil
	}
	if s.lo > 0 {
		return s.rest(0, s.lo, e)
	}
	return s.load(s.at-1, -1, e)
}

func (s *source) Close() {
	s.release()
	if s.s != nil {
		s.t.pool.Put(s.s)
	}
	if s.file != nil {
		_ = s.file.Close() // it was only read
	}
	*s = source{}
	sources.Put(s)
}
