// Package keyrange looks for newer entries in a range of user keys.
package keyrange

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// Range is user keys from Lower up to Upper. nil is no bound.
type Range struct {
	Cmp          *base.Comparer
	Lower, Upper []byte
	Inclusive    bool // Upper is one of them
}

// EndsBefore reports whether key is behind the range.
func (r *Range) EndsBefore(key []byte) bool {
	if r.Upper == nil {
		return false
	}
	c := r.Cmp.Cmp(key, r.Upper)
	return c > 0 || c == 0 && !r.Inclusive
}

// CoveredBy returns a key in the range that a range tombstone of l newer than since covers, not
// nil, or nil.
func (r *Range) CoveredBy(l *rangedel.List, since base.SeqNum) []byte {
	for _, f := range l.Fragments() {
		switch {
		case f.Newest(base.MaxSeqNum) <= since, r.EndsBefore(f.Start),
			r.Lower != nil && r.Cmp.Cmp(f.Limit, r.Lower) <= 0:
		case r.Lower != nil && r.Cmp.Cmp(f.Start, r.Lower) < 0:
			return append([]byte{}, r.Lower...)
		default:
			return append([]byte{}, f.Start...)
		}
	}
	return nil
}

// Newest returns a key in the range with an entry newer than since, not nil, or nil. It
// closes the source.
func (r *Range) Newest(src base.Source, since base.SeqNum) ([]byte, error) {
	defer src.Close()
	var e base.Chunk
	i, err := 0, error(nil)
	if r.Lower == nil {
		i, err = src.First(&e)
	} else {
		i, err = src.SeekGE(r.Lower, base.MaxTrailer, &e)
	}
	for ok := i >= 0; ok && err == nil; {
		for ; i < e.Len(); i++ {
			if r.EndsBefore(e.Key(i)) {
				return nil, nil
			}
			if e.Trailers[i].Seq() > since {
				return append([]byte{}, e.Key(i)...), nil
			}
		}
		i = 0
		ok, err = src.Next(&e)
	}
	return nil, err
}
