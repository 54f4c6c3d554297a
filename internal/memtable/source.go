package memtable

import (
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// Stretches begin small after a seek, which often wants one entry only, and
// double from there, up to stretch.
const (
	seekStretch = 1
	scanStretch = 64
	stretch     = 256
)

// source is an iterator over the entries that a table had when it was opened.
type source struct {
	t   *Table
	mem *memory
	end uint32 // of these entries in the arena
	// all versions are handed out; else what a reader at seq sees.
	all bool
	seq base.SeqNum

	page
	at   int  // entry of the page that comes next, or running backward the one behind it
	back bool // the last stretch was one before another
	// done: what is seen of the user key of the entry before at has been handed
	// out. Not for running backward.
	done     bool
	repeated bool // a user key stands twice in the stretch, or may
	want     int
	from, to int // the stretch in offs

	offs                   [stretch]uint32
	keyOff, valOff, valEnd [stretch]uint32
	trailers               [stretch]base.Trailer
}

var sources = sync.Pool{New: func() any { return new(source) }}

// NewSource iterates over all entries applied before the call; later ones are
// not seen.
func (m *Table) NewSource() base.Source { return m.newSource(true, base.MaxSeqNum) }

// NewSourceAt is NewSource for a reader at seq: of each key only the newest entry
// with at most that sequence is there, be it a deletion. Versions that are passed
// over cost next to nothing.
func (m *Table) NewSourceAt(seq base.SeqNum) base.Source { return m.newSource(false, seq) }

func (m *Table) newSource(all bool, seq base.SeqNum) base.Source {
	o := &m.order
	if !o.used.Load() {
		o.used.Store(true)
		o.on.Store(true)
	}
	if err := o.complete(); err != nil {
		return &failed{err}
	}
	m.Ref()
	s := sources.Get().(*source)
	// An empty table's memory may yet be replaced.
	s.end = uint32(o.covered.Load())
	s.t, s.mem, s.all, s.seq = m, m.mem.Load(), all, seq
	return s
}

func (s *source) Close() {
	if s.t == nil {
		return
	}
	t := s.t
	s.t, s.mem = nil, nil
	sources.Put(s)
	t.Unref()
}

func (s *source) First(e *base.Entries) (int, error) {
	s.page = page{next: firstLeaf}
	if s.end == arenaStart {
		s.next = 0
	}
	s.place(0, scanStretch)
	return s.firstOf(s.ahead(e)), nil
}

func (s *source) Last(e *base.Entries) (int, error) {
	s.page = page{}
	if s.end != arenaStart {
		s.next = s.t.order.last.Load()
		for s.next != 0 {
			s.t.order.read(s.next, &s.page)
		}
	}
	s.place(s.n, scanStretch)
	return s.backward(e) - 1, nil
}

func (s *source) SeekGE(key []byte, t base.Trailer, e *base.Entries) (int, error) {
	if s.all {
		s.seek(key, t, seekStretch)
		return s.firstOf(s.ahead(e)), nil
	}
	s.seek(key, base.MaxTrailer, seekStretch)
	n := s.ahead(e)
	if n > 0 && e.Trailers[0] > t && s.t.cmp.Cmp(e.Key(0), key) == 0 {
		if n > 1 {
			return 1, nil
		}
		n = s.ahead(e)
	}
	return s.firstOf(n), nil
}

func (s *source) SeekLT(key []byte, t base.Trailer, e *base.Entries) (int, error) {
	if s.all || t == base.MaxTrailer {
		s.seek(key, t, seekStretch)
		return s.backward(e) - 1, nil
	}
	s.seek(key, base.MaxTrailer, seekStretch)
	if s.ahead(e) > 0 && e.Trailers[0] > t && s.t.cmp.Cmp(e.Key(0), key) == 0 {
		return 0, nil
	}
	s.seek(key, base.MaxTrailer, seekStretch)
	return s.backward(e) - 1, nil
}

// seek stands before (key, t), with want entries for the next stretch.
func (s *source) seek(key []byte, t base.Trailer, want int) {
	s.page.n, s.next, s.prev = 0, 0, 0
	at := 0
	if s.end != arenaStart {
		at = s.t.order.find(key, t, &s.page)
	}
	s.place(at, want)
}

func (s *source) place(at, want int) { s.at, s.want, s.done = at, want, false }

func (s *source) firstOf(n int) int {
	if n == 0 {
		return -1
	}
	return 0
}

func (s *source) Next(e *base.Entries) (bool, error) {
	if s.back {
		last := s.offs[s.to-1]
		t := base.Trailer(0)
		if s.all {
			t = s.mem.trailer(last) - 1
		}
		s.seek(s.mem.key(last), t, s.want)
	}
	return s.ahead(e) > 0, nil
}

func (s *source) Prev(e *base.Entries) (bool, error) {
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

// ahead hands out the stretch that begins at at.
func (s *source) ahead(e *base.Entries) int {
	s.back, s.repeated = false, false
	n := 0
	if s.all {
		n = s.allAhead()
	} else {
		n = s.seenAhead()
	}
	s.gather(e, 0, n)
	return n
}

// backward hands out the stretch that ends at at.
func (s *source) backward(e *base.Entries) int {
	s.back, s.repeated = true, false
	n := 0
	if s.all {
		n = s.allBack()
	} else {
		n = s.seenBack()
	}
	s.gather(e, stretch-n, stretch)
	return n
}

// more makes sure that an entry stands at at, and less that one stands before.
func (s *source) more() bool {
	if s.at < s.n {
		return true
	}
	s.at = 0
	if s.t.order.turnOver(&s.page) {
		return true
	}
	s.at = s.n
	return false
}

func (s *source) less() bool {
	if s.at > 0 {
		return true
	}
	if !s.t.order.turnBack(&s.page) {
		return false
	}
	s.at = s.n
	return true
}

func (s *source) allAhead() (n int) {
	for n < s.want && s.more() {
		if off := s.page.offs[s.at]; off < s.end {
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
		if off := s.page.offs[s.at]; off < s.end {
			s.repeated = s.repeated || s.same>>s.at&1 != 0
			n++
			s.offs[stretch-n] = off
		}
	}
	return n
}

// gather fills the columns for offs[from:to].
func (s *source) gather(e *base.Entries, from, to int) {
	s.want = min(2*s.want, stretch)
	s.from, s.to = from, to
	if from == to {
		*e = base.Entries{}
		return
	}
	var newest, kinds base.Trailer
	kinds = ^kinds
	for i := from; i < to; i++ {
		h := s.mem.entry(s.offs[i])
		s.keyOff[i], s.valOff[i], s.valEnd[i], s.trailers[i] = h.key, h.value, h.end, h.trailer
		newest = max(newest, h.trailer)
		kinds &= h.trailer
	}
	*e = base.Entries{
		Data:     s.mem.arena,
		KeyOff:   s.keyOff[from:to],
		ValOff:   s.valOff[from:to],
		ValEnd:   s.valEnd[from:to],
		Trailers: s.trailers[from:to],
		Plain:    kinds&base.Trailer(base.KindSet) != 0 && !s.repeated,
		MaxSeq:   newest.Seq(),
	}
}

// failed is the source of a table that could not be ordered: every move fails.
type failed struct{ err error }

func (f *failed) none(e *base.Entries) (int, error) {
	*e = base.Entries{}
	return -1, f.err
}

func (f *failed) First(e *base.Entries) (int, error) { return f.none(e) }
func (f *failed) Last(e *base.Entries) (int, error)  { return f.none(e) }
func (f *failed) SeekGE(_ []byte, _ base.Trailer, e *base.Entries) (int, error) {
	return f.none(e)
}
func (f *failed) SeekLT(_ []byte, _ base.Trailer, e *base.Entries) (int, error) {
	return f.none(e)
}
func (f *failed) Next(e *base.Entries) (bool, error) {
	_, err := f.none(e)
	return false, err
}
func (f *failed) Prev(e *base.Entries) (bool, error) {
	_, err := f.none(e)
	return false, err
}
func (f *failed) Close() {}
