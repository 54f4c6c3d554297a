package sstable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// sequenced is the reader of a table that was written outside of a database and ingested: the
// file has sequence number 0 for all entries and range tombstones, and at most one entry of a
// user key, and the database gives all of them one sequence number, seq.
//
// So the order of the entries is that of the file, and a search with a sequence number is one
// without, behind a comparison with seq.
type sequenced struct {
	Reader
	cmp  *base.Comparer
	seq  base.SeqNum
	dels *rangedel.List
}

// WithSeq makes a reader of r in which all entries and range tombstones have sequence number
// seq. REQUIRES: in r all have 0, and a user key has one entry at most.
func WithSeq(r Reader, cmp *base.Comparer, seq base.SeqNum) Reader {
	s := &sequenced{Reader: r, cmp: cmp, seq: seq}
	if l := r.RangeDels(); l != nil {
		frags := make([]rangedel.Fragment, 0, len(l.Fragments()))
		seqs := []base.SeqNum{seq}
		for _, f := range l.Fragments() {
			frags = append(frags, rangedel.Fragment{Start: f.Start, Limit: f.Limit, Seqs: seqs})
		}
		s.dels, _ = rangedel.New(cmp, frags)
	}
	return s
}

// trailer is that of an entry which the file has with trailer t.
func (s *sequenced) trailer(t base.Trailer) base.Trailer {
	return base.MakeTrailer(s.seq, t.Kind())
}

func (s *sequenced) hit(h Hit, found bool) Hit {
	if found {
		h.Trailer = s.trailer(h.Trailer)
	}
	return h
}

func (s *sequenced) Get(l base.Lookup, flags ReadFlags, dst []byte) ([]byte, Hit, bool, error) {
	if l.Seq < s.seq {
		return dst, Hit{}, false, nil
	}
	value, hit, found, err := s.Reader.Get(l, flags, dst)
	return value, s.hit(hit, found), found, err
}

func (s *sequenced) Find(l base.Lookup) (Position, bool) {
	if l.Seq < s.seq {
		return 0, false
	}
	return s.Reader.Find(l)
}

func (s *sequenced) GetPinned(b Pinned, p Position, l base.Lookup, dst []byte) ([]byte, Hit, bool) {
	if l.Seq < s.seq {
		b.Release()
		return dst, Hit{}, false
	}
	value, hit, found := s.Reader.GetPinned(b, p, l, dst)
	return value, s.hit(hit, found), found
}

func (s *sequenced) GetAt(p Position, l base.Lookup, flags ReadFlags,
	dst []byte) ([]byte, Hit, bool, error) {
	if l.Seq < s.seq {
		return dst, Hit{}, false, nil
	}
	value, hit, found, err := s.Reader.GetAt(p, l, flags, dst)
	return value, s.hit(hit, found), found, err
}

// GetNext finds nothing: a key has one entry.
func (s *sequenced) GetNext(_ Hit, _ base.Lookup, _ ReadFlags,
	dst []byte) ([]byte, Hit, bool, error) {
	return dst, Hit{}, false, nil
}

func (s *sequenced) RangeDels() *rangedel.List { return s.dels }

func (s *sequenced) OffsetOf(key []byte, _ base.Trailer) uint64 {
	return s.Reader.OffsetOf(key, base.MaxTrailer)
}

func (s *sequenced) Props() Props {
	p := s.Reader.Props()
	p.MinSeq, p.MaxSeq = s.seq, s.seq
	return p
}

func (s *sequenced) NewSource(flags ReadFlags) base.Source {
	return &sequencedSource{Source: s.Reader.NewSource(flags), of: s}
}

// sequencedSource gives the entries of a source the sequence number of its reader.
type sequencedSource struct {
	base.Source
	of       *sequenced
	trailers []base.Trailer // of the chunk handed out last
}

var (
	_ base.SeekPrefetcher = (*sequencedSource)(nil)
	_ Covered             = (*sequencedSource)(nil)
)

// number gives the entries of e their sequence number.
func (s *sequencedSource) number(e *base.Chunk) {
	n := len(e.Trailers)
	if n == 0 {
		return
	}
	if cap(s.trailers) < n {
		s.trailers = make([]base.Trailer, n, max(n, 64))
	}
	s.trailers = s.trailers[:n]
	if e.AllLiveSets {
		t := s.of.trailer(base.MakeTrailer(0, base.KindSet))
		for i := range s.trailers {
			s.trailers[i] = t
		}
	} else {
		for i, t := range e.Trailers {
			s.trailers[i] = s.of.trailer(t)
		}
	}
	e.Trailers, e.MaxSeq = s.trailers, s.of.seq
}

func (s *sequencedSource) First(e *base.Chunk) (int, error) {
	i, err := s.Source.First(e)
	s.number(e)
	return i, err
}

func (s *sequencedSource) Last(e *base.Chunk) (int, error) {
	i, err := s.Source.Last(e)
	s.number(e)
	return i, err
}

func (s *sequencedSource) Next(e *base.Chunk) (bool, error) {
	ok, err := s.Source.Next(e)
	s.number(e)
	return ok, err
}

func (s *sequencedSource) Prev(e *base.Chunk) (bool, error) {
	ok, err := s.Source.Prev(e)
	s.number(e)
	return ok, err
}

// PrefetchSeek precedes a SeekGE, which looks for the key whatever its trailer is.
func (s *sequencedSource) PrefetchSeek(key []byte, _ base.Trailer) {
	if p, ok := s.Source.(base.SeekPrefetcher); ok {
		p.PrefetchSeek(key, base.MaxTrailer)
	}
}

// isBefore reports whether entry i of e sorts before (key, t). It is at key or behind.
func (s *sequencedSource) isBefore(e *base.Chunk, i int, key []byte, t base.Trailer) bool {
	return e.Trailers[i] > t && s.of.cmp.Cmp(e.Key(i), key) == 0
}

func (s *sequencedSource) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	i, err := s.Source.SeekGE(key, base.MaxTrailer, e)
	s.number(e)
	if i < 0 || !s.isBefore(e, i, key, t) {
		return i, err
	}
	if i++; i < e.Len() {
		return i, nil
	}
	if ok, err := s.Next(e); !ok {
		*e = base.Chunk{}
		return -1, err
	}
	return 0, nil
}

func (s *sequencedSource) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	if t.Seq() > s.of.seq { // whatever it has of the key is not before it
		i, err := s.Source.SeekLT(key, base.MaxTrailer, e)
		s.number(e)
		return i, err
	}
	i, err := s.Source.SeekGE(key, base.MaxTrailer, e)
	s.number(e)
	switch {
	case err != nil:
		return -1, err
	case i < 0:
		return s.Last(e)
	case s.isBefore(e, i, key, t):
		return i, nil
	case i > 0:
		return i - 1, nil
	}
	if ok, err := s.Prev(e); !ok {
		*e = base.Chunk{}
		return -1, err
	}
	return e.Len() - 1, nil
}

// Coverage is that of the source below.
func (s *sequencedSource) Coverage() Coverage {
	if c, ok := s.Source.(Covered); ok {
		return c.Coverage()
	}
	return Coverage{}
}
