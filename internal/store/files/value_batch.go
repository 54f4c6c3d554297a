package files

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/record"
)

// maxValueRead is how many bytes of neighbours one pread takes.
const maxValueRead = 1 << 20

// ReadValues appends the values of a batch to dst, in the order of their places, and says in b
// where each of them lies. Neighbours, with no gap between them that is longer than the value
// behind it, are read by one pread; the other places are prefetched before. A value that cannot be
// read is left to AppendValue, which tells why. The caller has a reference on Versions with the
// entries' tables.
func (s *Set) ReadValues(dst []byte, b *base.ValueBatch) []byte {
	places := b.ByPlace()
	for i := range b.Values {
		b.Values[i].From, b.Values[i].To = 0, 0
	}
	n := neighbours(b.Values, places)
	for at := n; at < len(places); {
		next := neighbours(b.Values, places[at:])
		first, last := &b.Values[places[at]], &b.Values[places[at+next-1]]
		s.values.file(s, first.File()).Prefetch(first.Offset,
			record.ValueEnd(last.ValueHandle)-first.Offset)
		at += next
	}
	for len(places) > 0 {
		dst = s.readNeighbours(dst, b.Values, places[:n])
		places = places[n:]
		n = neighbours(b.Values, places)
	}
	return dst
}

// neighbours is how many of the values, the first of places, one pread takes.
func neighbours(values []base.BatchedValue, places []int) int {
	for i := 1; i < len(places); i++ {
		first, before, v := &values[places[0]], &values[places[i-1]], &values[places[i]]
		gap := v.Offset - record.ValueEnd(before.ValueHandle)
		if v.File() != first.File() || v.ValueHandle != before.ValueHandle && gap < 0 ||
			gap > int64(v.Len) || record.ValueEnd(v.ValueHandle)-first.Offset > maxValueRead {
			return i
		}
	}
	return len(places)
}

// readNeighbours reads values that follow each other in a file.
func (s *Set) readNeighbours(dst []byte, values []base.BatchedValue, places []int) []byte {
	first, last := &values[places[0]], &values[places[len(places)-1]]
	f, from := s.values.file(s, first.File()), len(dst)
	n := record.ValueEnd(last.ValueHandle) - first.Offset
	if size, err := f.onDisk(); err != nil || first.Offset+n > size {
		return dst
	}
	dst = slices.Grow(dst, int(n))[:from+int(n)]
	if base.ReadFull(f, dst[from:], first.Offset) != nil {
		return dst[:from]
	}
	var before *base.BatchedValue
	for _, i := range places {
		v := &values[i]
		if before != nil && v.ValueHandle == before.ValueHandle {
			v.From, v.To = before.From, before.To
			continue
		}
		before = v
		at := from + int(v.Offset-first.Offset)
		b := dst[at : at+int(record.ValueEnd(v.ValueHandle)-v.Offset)]
		if !v.InFile && !record.JoinSpan(b, v.Offset, int64(v.Len)) ||
			base.CRC(b[:v.Len]) != v.Sum {
			continue
		}
		v.From, v.To = at, at+int(v.Len)
		s.values.reads.Add(1)
		s.values.bytes.Add(uint64(v.Len))
	}
	return dst
}
