package memtable

import (
	"sync"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// The first chunk after a seek is small, as many seeks read one entry; from there on
// chunks double, up to maxChunk entries.
const (
	seekChunk = 1
	scanChunk = 64
	maxChunk  = 256
)

// source iterates over the entries that a memtable had when the source was opened.
type source struct {
	m   *MemTable
	mem *memory
	end uint32 // of these entries in the arena
	// newer is where entries begin all of which are newer than seq.
	newer uint32
	// all says that all versions are returned; if not, only what is visible at seq.
	all        bool
	seq        base.SeqNum
	referenced bool // the source has a reference on m

	leafCopy
	at   int  // entry of the leaf that comes next, or running backward the one behind it
	back bool // the last move was towards smaller keys
	// done: what is seen of the user key of the entry before at has been handed
	// out. Not for running backward.
	returned bool
	repeated bool // a user key occurs twice in the chunk, or may
	want     int  // entries of the next chunk
	skip     skip // asked for, see Skip
	from, to int  // the last chunk in offs

	offs                   [maxChunk]uint32
	keyOff, valOff, valEnd [maxChunk]uint32
	trailers               [maxChunk]base.Trailer
}

var sources = sync.Pool{New: func() any { return new(source) }}

// NewSource iterates over all entries, with all versions and tombstones, that were
// applied before the call. Later ones stay invisible. The source has a reference on m.
func (m *MemTable) NewSource() base.Source { return m.newSource(true, base.MaxSeqNum) }

// NewSourceAt is NewSource for a reader at seq: of each key it has only the newest
// entry with at most that sequence number, which may be a tombstone. Passing over
// other versions costs next to nothing. Of a memtable with entries that do not end a
// lookup, the source has all versions, those that are too new included. The caller has a
// reference on m until it has closed the source, which takes none: the count is one cache
// line for all readers.
func (m *MemTable) NewSourceAt(seq base.SeqNum) base.Source { return m.newSource(false, seq) }

// newSource makes a source with all versions, and a reference on m, or one for seq.
func (m *MemTable) newSource(all bool, seq base.SeqNum) base.Source {
	o, newer := &m.order, m.newerFrom(seq)
	if newer > arenaStart { // otherwise there is nothing to see
		if !o.used.Load() {
			o.used.Store(true)
			o.on.Store(!m.cmp.Serial())
		}
		if err := o.complete(); err != nil {
			return &failed{err}
		}
	}
	if all {
		m.Ref()
	}
	s := sources.Get().(*source)
	// end comes before mem: an empty memtable's memory may be replaced meanwhile.
	s.end, s.newer = min(uint32(o.covered.Load()), newer), newer
	s.m, s.mem, s.all, s.seq, s.referenced = m, m.mem.Load(), all || m.operands.Load(), seq, all
	return s
}

func (s *source) Close() {
	if s.m == nil {
		return
	}
	m, referenced := s.m, s.referenced
	s.m, s.mem = nil, nil
	sources.Put(s)
	if referenced {
		m.Unref()
	}
}

func (s *source) First(e *base.Chunk) (int, error) {
	s.leafCopy = leafCopy{next: firstLeaf}
	if s.end == arenaStart {
		s.next = 0
	}
	s.positionAt(0, scanChunk)
	return s.firstOf(s.ahead(e)), nil
}

func (s *source) Last(e *base.Chunk) (int, error) {
	s.leafCopy = leafCopy{}
	if s.end != arenaStart {
		s.next = s.m.order.last.Load()
		for s.next != 0 {
			s.m.order.copyLeaf(s.next, &s.leafCopy)
		}
	}
	s.positionAt(s.n, scanChunk)
	return s.backward(e) - 1, nil
}

func (s *source) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	if s.all {
		s.seek(key, t, seekChunk)
		return s.firstOf(s.ahead(e)), nil
	}
	s.seek(key, base.MaxTrailer, seekChunk)
	n := s.ahead(e)
	if n > 0 && e.Trailers[0] > t && s.m.cmp.Cmp(e.Key(0), key) == 0 {
		if n > 1 {
			return 1, nil
		}
		n = s.ahead(e)
	}
	return s.firstOf(n), nil
}

func (s *source) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	if s.all || t == base.MaxTrailer {
		s.seek(key, t, seekChunk)
		return s.backward(e) - 1, nil
	}
	s.seek(key, base.MaxTrailer, seekChunk)
	if s.ahead(e) > 0 && e.Trailers[0] > t && s.m.cmp.Cmp(e.Key(0), key) == 0 {
		return 0, nil
	}
	s.seek(key, base.MaxTrailer, seekChunk)
	return s.backward(e) - 1, nil
}

// seek positions the source before (key, t), with want entries for the next chunk.
func (s *source) seek(key []byte, t base.Trailer, want int) {
	s.leafCopy.n, s.next, s.prev = 0, 0, 0
	at := 0
	if s.end != arenaStart {
		at = s.m.order.seekLeaf(key, t, &s.leafCopy)
	}
	s.positionAt(at, want)
}

func (s *source) positionAt(at, want int) {
	s.at, s.want, s.returned, s.skip = at, want, false, skip{}
}

func (s *source) firstOf(n int) int {
	if n == 0 {
		return -1
	}
	return 0
}

func (s *source) Next(e *base.Chunk) (bool, error) {
	if s.back {
		last := s.offs[s.to-1]
		t := base.Trailer(0)
		if s.all {
			t = s.mem.trailer(last) - 1
		}
		s.seek(s.mem.key(last), t, s.want)
	} else if s.skip.limit != nil {
		s.skipAhead()
	}
	return s.ahead(e) > 0, nil
}

func (s *source) Prev(e *base.Chunk) (bool, error) {
	if !s.back {
		first := s.offs[s.from]
		t := base.MaxTrailer
		if s.all {
			t = s.mem.trailer(first)
		}
		s.seek(s.mem.key(first), t, s.want)
	}
	return s.backward(e) > 0, nil
}

// ahead returns the chunk that begins at at.
func (s *source) ahead(e *base.Chunk) int {
	s.back, s.repeated = false, false
	n := 0
	if s.all {
		n = s.allAhead()
	} else {
		n = s.visibleAhead()
	}
	s.gather(e, 0, n)
	return n
}

// backward returns the chunk that ends at at.
func (s *source) backward(e *base.Chunk) int {
	s.back, s.repeated = true, false
	n := 0
	if s.all {
		n = s.allBack()
	} else {
		n = s.visibleBack()
	}
	s.gather(e, maxChunk-n, maxChunk)
	return n
}

// more loads the next leaf when the present one has no entry at at; less loads the
// previous leaf when none is before at. Both return false at the end.
func (s *source) more() bool {
	if s.at < s.n {
		return true
	}
	s.at = 0
	if s.m.order.nextLeaf(&s.leafCopy) {
		return true
	}
	s.at = s.n
	return false
}

func (s *source) less() bool {
	if s.at > 0 {
		return true
	}
	if !s.m.order.prevLeaf(&s.leafCopy) {
		return false
	}
	s.at = s.n
	return true
}

func (s *source) allAhead() (n int) {
	for n < s.want && s.more() {
		if off := s.leafCopy.offs[s.at]; off < s.end {
			s.repeated = s.repeated || s.same>>s.at&1 != 0
			s.offs[n] = off
			n++
		}
		s.at++
	}
	return n
}

func (s *source) allBack() (n int) {
	for n < s.want && s.less() {
		s.at--
		if off := s.leafCopy.offs[s.at]; off < s.end {
			s.repeated = s.repeated || s.same>>s.at&1 != 0
			n++
			s.offs[maxChunk-n] = off
		}
	}
	return n
}

// Of a chunk of so many entries all keys and values are going to be read, one after the other: they
// lie all over the arena, so they are loaded into the processor's cache side by side: as much of
// each as entries have on average, up to maxPrefetch bytes.
const (
	scanned     = 16
	maxPrefetch = 512
)

// gather fills the columns for offs[from:to].
func (s *source) gather(e *base.Chunk, from, to int) {
	s.want = min(2*s.want, maxChunk)
	s.from, s.to = from, to
	if from == to {
		*e = base.Chunk{}
		return
	}
	if to-from >= scanned {
		n := min(s.m.EntrySize(), maxPrefetch)
		for _, off := range s.offs[from:to] {
			offheap.Prefetch(unsafe.Add(s.mem.base, int(off)), n)
		}
	}
	var newest, other base.Trailer // other: bits in which a kind differs from KindSet
	for i := from; i < to; i++ {
		h := s.mem.entry(s.offs[i])
		s.keyOff[i], s.valOff[i], s.valEnd[i], s.trailers[i] = h.key, h.value, h.end, h.trailer
		newest = max(newest, h.trailer)
		other |= h.trailer ^ base.Trailer(base.KindSet)
	}
	*e = base.Chunk{
		Data:        s.mem.arena,
		KeyOff:      s.keyOff[from:to],
		ValOff:      s.valOff[from:to],
		ValEnd:      s.valEnd[from:to],
		Trailers:    s.trailers[from:to],
		AllLiveSets: other.Kind() == 0 && !s.repeated,
		MaxSeq:      newest.Seq(),
	}
}

// failed is the source of a memtable that could not be ordered: every move fails.
type failed struct{ err error }

func (f *failed) none(e *base.Chunk) (int, error) {
	*e = base.Chunk{}
	return -1, f.err
}

func (f *failed) First(e *base.Chunk) (int, error) { return f.none(e) }
func (f *failed) Last(e *base.Chunk) (int, error)  { return f.none(e) }
func (f *failed) SeekGE(_ []byte, _ base.Trailer, e *base.Chunk) (int, error) {
	return f.none(e)
}
func (f *failed) SeekLT(_ []byte, _ base.Trailer, e *base.Chunk) (int, error) {
	return f.none(e)
}
func (f *failed) Next(e *base.Chunk) (bool, error) {
	_, err := f.none(e)
	return false, err
}
func (f *failed) Prev(e *base.Chunk) (bool, error) {
	_, err := f.none(e)
	return false, err
}
func (f *failed) Close() {}
