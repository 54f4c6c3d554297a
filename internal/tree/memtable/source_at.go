package memtable

import (
	"math/bits"
	"sort"
)

// A source at a sequence number goes key by key. The entries of a user key are
// neighbours, newest first; the first one that is old enough is visible. Bits of the
// leaf (same) say where a user key ends, so the others are not looked at.

// groupEnd is the index behind the entries of this leaf that have the user key of entry
// i.
func (p *leafCopy) groupEnd(i int) int {
	return min(i+1+bits.TrailingZeros64(^(p.same>>(i+1))), p.n)
}

// groupStart is the index of the first entry with the user key of entry i, -1 when that
// may be in an earlier leaf.
func (p *leafCopy) groupStart(i int) int {
	return bits.Len64(^p.same&(2<<i-1)) - 1
}

// visible is the entry of [i, j), which have one user key, that is visible at seq; j
// when none is.
func (s *source) visible(i, j int) int {
	if s.mem.trailer(s.leafCopy.offs[i]).Seq() <= s.seq {
		return i
	}
	return i + 1 + sort.Search(j-i-1, func(k int) bool {
		return s.mem.trailer(s.leafCopy.offs[i+1+k]).Seq() <= s.seq
	})
}

func (s *source) visibleAhead() (n int) {
	for n < s.want && s.more() {
		i := s.at
		if s.same>>i&1 == 0 {
			s.returned = false
		}
		s.at = s.groupEnd(i)
		if s.returned {
			continue
		}
		if k := s.visible(i, s.at); k < s.at {
			s.offs[n] = s.leafCopy.offs[k]
			n++
			s.returned = true
		}
	}
	return n
}

func (s *source) visibleBack() (n int) {
	for n < s.want && s.less() {
		off := uint32(0) // none
		for start := -1; start < 0 && s.less(); {
			end := s.at
			start = s.groupStart(end - 1)
			s.at = max(start, 0)
			if k := s.visible(s.at, end); k < end {
				off = s.leafCopy.offs[k]
			}
		}
		if off != 0 {
			n++
			s.offs[maxChunk-n] = off
		}
	}
	return n
}
