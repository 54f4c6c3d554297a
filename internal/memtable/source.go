package memtable

import (
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// Stretches begin small after a seek, which often wants one entry only, and
// double from there.
const (
	seekStretch = 2
	scanStretch = 64
)

// source is an iterator over the runs that a table had when it was opened.
type source struct {
	merger
	t    *Table
	runs []*run
	want int
	// all versions are handed out; else what a reader at seq sees.
	all bool
	seq base.SeqNum

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
	first := !m.order.on.Swap(true)
	s := sources.Get().(*source)
	runs, err := m.order.acquire(s.runs[:0])
	if err != nil {
		sources.Put(s)
		return &failed{err}
	}
	if first || m.order.crowded.Load() {
		m.order.wake()
	}
	m.Ref()
	s.t, s.runs, s.all, s.seq = m, runs, all, seq
	s.open(m, runs)
	return s
}

func (s *source) Close() error {
	if s.t == nil {
		return nil
	}
	for _, r := range s.runs {
		r.unref()
	}
	clear(s.runs)
	clear(s.heads)
	t := s.t
	s.t, s.mem, s.runs, s.heads, s.live = nil, nil, s.runs[:0], s.heads[:0], s.live[:0]
	sources.Put(s)
	t.Unref()
	return nil
}

func (s *source) Err() error { return nil }

func (s *source) First(e *base.Entries) int {
	for i := range s.heads {
		s.heads[i].hi = 0
	}
	s.want = scanStretch
	return s.firstOf(s.ahead(e))
}

func (s *source) Last(e *base.Entries) int {
	for i := range s.heads {
		s.heads[i].lo = len(s.heads[i].r.offs)
	}
	s.want = scanStretch
	return s.back(e) - 1
}

func (s *source) SeekGE(key []byte, t base.Trailer, e *base.Entries) int {
	if s.all {
		s.seek(key, t)
		return s.firstOf(s.ahead(e))
	}
	s.seek(key, base.MaxTrailer)
	n := s.ahead(e)
	if n > 0 && e.Trailers[0] > t && s.cmp.Cmp(e.Key(0), key) == 0 {
		if n > 1 {
			return 1
		}
		n = s.ahead(e)
	}
	return s.firstOf(n)
}

func (s *source) SeekLT(key []byte, t base.Trailer, e *base.Entries) int {
	if s.all || t == base.MaxTrailer {
		s.seek(key, t)
		return s.back(e) - 1
	}
	s.seek(key, base.MaxTrailer)
	if s.ahead(e) > 0 && e.Trailers[0] > t && s.cmp.Cmp(e.Key(0), key) == 0 {
		return 0
	}
	return s.back(e) - 1
}

func (s *source) seek(key []byte, t base.Trailer) {
	for i := range s.heads {
		h := &s.heads[i]
		h.lo = h.r.seek(s.cmp, s.mem, key, t)
		h.hi = h.lo
	}
	s.want = seekStretch
}

func (s *source) firstOf(n int) int {
	if n == 0 {
		return -1
	}
	return 0
}

func (s *source) Next(e *base.Entries) bool { return s.ahead(e) > 0 }

func (s *source) Prev(e *base.Entries) bool { return s.back(e) > 0 }

func (s *source) ahead(e *base.Entries) int {
	n := 0
	if s.all {
		n = s.forward(s.want)
	} else {
		n = s.forwardAt(s.want, s.seq)
	}
	s.gather(e, 0, n)
	return n
}

func (s *source) back(e *base.Entries) int {
	n := 0
	if s.all {
		n = s.backward(s.want)
	} else {
		n = s.backwardAt(s.want, s.seq)
	}
	s.gather(e, stretch-n, stretch)
	return n
}

// gather fills the columns for offs[from:to].
func (s *source) gather(e *base.Entries, from, to int) {
	s.want = min(2*s.want, stretch)
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
		Plain:    kinds&base.Trailer(base.KindSet) != 0 && !(s.all && s.repeats(from, to)),
		MaxSeq:   newest.Seq(),
	}
}

// failed is the source of a table that could not be ordered.
type failed struct{ err error }

func (f *failed) none(e *base.Entries) int {
	*e = base.Entries{}
	return -1
}

func (f *failed) First(e *base.Entries) int                            { return f.none(e) }
func (f *failed) Last(e *base.Entries) int                             { return f.none(e) }
func (f *failed) SeekGE(_ []byte, _ base.Trailer, e *base.Entries) int { return f.none(e) }
func (f *failed) SeekLT(_ []byte, _ base.Trailer, e *base.Entries) int { return f.none(e) }
func (f *failed) Next(e *base.Entries) bool                            { return f.none(e) > 0 }
func (f *failed) Prev(e *base.Entries) bool                            { return f.none(e) > 0 }
func (f *failed) Err() error                                           { return f.err }
func (f *failed) Close() error                                         { return f.err }
