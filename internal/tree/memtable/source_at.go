package memtable

import (
	"math"
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
	if s.old(i) {
		return i
	}
	return i + 1 + sort.Search(j-i-1, func(k int) bool { return s.old(i + 1 + k) })
}

// old reports whether entry i of the leaf is visible at seq.
func (s *source) old(i int) bool {
	off := s.leafCopy.offs[i]
	return off < s.newer && s.mem.trailer(off).Seq() <= s.seq
}

// tooNew reports whether entries [i, j) of the leaf are all newer than seq, if that can be told
// without a look at them.
func (s *source) tooNew(i, j int) bool {
	if s.newer == math.MaxUint32 {
		return false
	}
	oldest := s.newer
	for _, off := range s.leafCopy.offs[i:j] {
		oldest = min(oldest, off)
	}
	return oldest == s.newer
}

func (s *source) visibleAhead() (n int) {
	for first := true; n < s.want && s.more(); first = false {
		if (s.at == 0 || first) && s.tooNew(s.at, s.n) {
			// They have not the key that was returned last: what is left of it is older.
			s.at, s.returned = s.n, false
			continue
		}
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
	for first := true; n < s.want && s.less(); first = false {
		if (s.at == s.n || first) && s.tooNew(0, s.at) {
			s.at = 0 // versions before them of the first key are newer still
			continue
		}
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
