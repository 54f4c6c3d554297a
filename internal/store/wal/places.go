package wal

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
)

// place is where a large value lies in a log.
type place struct {
	seq    base.SeqNum // of its entry
	offset int64       // in the file, see record.SpanAt
}

// notePlaces notes the large values of a group that was appended as one record, behind begin.
func (s *Set) notePlaces(group [][]byte, begin int64) {
	at := batchrepr.HeaderLen // in the record, of the batch's first entry
	for _, b := range group {
		seq := batchrepr.Seq(b)
		for it := batchrepr.Read(b); ; seq++ {
			_, kind, _, value, ok := it.Next()
			if !ok {
				break
			}
			user := len(value)
			if kind == base.KindSetExpiring {
				user -= base.DeadlineLen
			}
			if kind.IsValue() && int64(user) >= s.opts.LargeValue {
				// The value ends its entry.
				n := at + it.Pos() - batchrepr.HeaderLen - len(value)
				s.places = append(s.places, place{seq, record.SpanAt(begin, int64(n))})
			}
		}
		at += len(b) - batchrepr.HeaderLen
	}
}

// Places tells where large values lie in full logs, of which at least one is needed while it is
// used.
type Places struct{ logs []placed }

// placed is a log with large values.
type placed struct {
	num    uint64
	places []place // sequence numbers ascend
}

// Places returns those of the full logs, which the values' memtables need. Any goroutine.
func (s *Set) Places() (p Places) {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	for _, l := range s.full {
		if len(l.places) > 0 {
			p.logs = append(p.logs, placed{l.num, l.places})
		}
	}
	return p
}

// Any reports whether there are large values.
func (p Places) Any() bool { return len(p.logs) > 0 }

// Find returns the log and the offset of the large value of the entry with a sequence number.
func (p Places) Find(seq base.SeqNum) (log uint64, offset int64, ok bool) {
	for _, l := range slices.Backward(p.logs) {
		if l.places[0].seq > seq {
			continue
		}
		i, ok := slices.BinarySearchFunc(l.places, seq, func(p place, seq base.SeqNum) int {
			return int(int64(p.seq) - int64(seq))
		})
		if !ok {
			return 0, 0, false
		}
		return l.num, l.places[i].offset, true
	}
	return 0, 0, false
}
