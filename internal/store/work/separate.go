package work

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree/compact"
)

// separated makes references of the large values of a memtable, whose entries are in full logs, if
// these have any. The memtable keeps the values.
func (s *Scheduler) separated(src base.Source) base.Source {
	places := s.opts.WAL.Places()
	if !places.Any() {
		return src
	}
	return &separator{Source: src, places: places}
}

// syncValueLogs makes the logs durable that new tables refer to. The edit with the tables comes
// afterwards.
func (s *Scheduler) syncValueLogs(result compact.Result) error {
	last := uint64(0)
	for _, a := range result.Added {
		for _, l := range a.Meta.ValueLogs {
			if !l.InFile {
				last = max(last, l.Log)
			}
		}
	}
	if last == 0 {
		return nil
	}
	return s.opts.WAL.SyncBefore(last + 1)
}

// separator is a source of a memtable with references in the place of large values. It moves
// forward only.
type separator struct {
	base.Source
	places wal.Places

	in base.Chunk
	// The chunk that was handed out, where it has references.
	data                   []byte
	keyOff, valOff, valEnd []uint32
	trailers               []base.Trailer
}

func (s *separator) First(e *base.Chunk) (int, error) {
	i, err := s.Source.First(&s.in)
	s.separate(e)
	return i, err
}

func (s *separator) Next(e *base.Chunk) (bool, error) {
	ok, err := s.Source.Next(&s.in)
	s.separate(e)
	return ok, err
}

// find returns where the value of entry i lies, if it is a large one.
func (s *separator) find(i int) (log uint64, offset int64, ok bool) {
	if k := s.in.Trailers[i].Kind(); k != base.KindSet && k != base.KindSetExpiring {
		return 0, 0, false
	}
	return s.places.Find(s.in.Trailers[i].Seq())
}

// separate makes e of the chunk in.
func (s *separator) separate(e *base.Chunk) {
	*e = s.in
	n := s.in.Len()
	first := 0
	for first < n {
		if _, _, ok := s.find(first); ok {
			break
		}
		first++
	}
	if first == n {
		return
	}
	s.data, s.trailers = s.data[:0], append(s.trailers[:0], s.in.Trailers...)
	s.keyOff, s.valOff, s.valEnd = s.keyOff[:0], s.valOff[:0], s.valEnd[:0]
	for i := range n {
		s.keyOff = append(s.keyOff, uint32(len(s.data)))
		s.data = append(s.data, s.in.Key(i)...)
		s.valOff = append(s.valOff, uint32(len(s.data)))
		if log, offset, ok := s.find(i); ok {
			value, deadline := s.in.Value(i), []byte(nil)
			kind := s.trailers[i].Kind()
			if kind.Expires() {
				n := len(value) - base.DeadlineLen
				value, deadline = value[:n], value[n:]
			}
			s.data = base.AppendValueHandle(s.data, base.ValueHandle{Log: log, Offset: offset,
				Len: uint32(len(value)), Sum: base.CRC(value)})
			s.data = append(s.data, deadline...)
			s.trailers[i] = base.MakeTrailer(s.trailers[i].Seq(), kind.Referring())
		} else {
			s.data = append(s.data, s.in.Value(i)...)
		}
		s.valEnd = append(s.valEnd, uint32(len(s.data)))
	}
	*e = base.Chunk{Data: s.data, KeyOff: s.keyOff, ValOff: s.valOff, ValEnd: s.valEnd,
		Trailers: s.trailers, FirstIsNewest: s.in.FirstIsNewest, MaxSeq: s.in.MaxSeq}
}
