package memtable

import (
	"math"
	"math/bits"
	"sort"

	"github.com/loamdb/loam/internal/base"
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
			many := s.n-s.at >= manyVersions && s.groupEnd(s.at) == s.n
			if s.at, s.returned = s.n, false; many {
				s.passVersions()
			}
			continue
		}
		i := s.at
		if s.same>>i&1 == 0 {
			s.returned = false
		}
		s.at = s.groupEnd(i)
		if !s.returned {
			if k := s.visible(i, s.at); k < s.at {
				s.offs[n] = s.leafCopy.offs[k]
				n++
				s.returned = true
			}
		}
		if s.at-i >= manyVersions && s.at == s.n {
			s.passVersions()
		}
	}
	return n
}

// manyVersions is how many entries of a leaf have one key if the source seeks the end of its
// versions, or the visible one, instead of going from leaf to leaf: a key may have been written
// again and again.
const manyVersions = fanout / 2

// passVersions goes behind the versions of the key before s.at that are not wanted: those that are
// too new, or all if one was returned.
func (s *source) passVersions() {
	t := base.Trailer(0)
	if !s.returned {
		t = base.MakeTrailer(s.seq, base.KindForSeek)
	}
	s.at = s.m.order.seekLeaf(s.mem.key(s.leafCopy.offs[s.n-1]), t, &s.leafCopy)
}

// passVersionsBack goes before all versions of the key of entry 0, of which the one at off is
// visible, or none if it is 0. It returns the newest visible one.
func (s *source) passVersionsBack(off uint32) uint32 {
	key := s.mem.key(s.leafCopy.offs[0])
	if off != 0 {
		t := base.MakeTrailer(s.seq, base.KindForSeek)
		s.at = s.m.order.seekLeaf(key, t, &s.leafCopy)
		if s.more() && s.old(s.at) {
			off = s.leafCopy.offs[s.at]
		}
	}
	s.at = s.m.order.seekLeaf(key, base.MaxTrailer, &s.leafCopy)
	return off
}

func (s *source) visibleBack() (n int) {
	for first := true; n < s.want && s.less(); first = false {
		if (s.at == s.n || first) && s.tooNew(0, s.at) {
			many := s.at >= manyVersions && s.groupStart(s.at-1) < 0
			if s.at = 0; many { // versions before them of the first key are newer still
				s.passVersionsBack(0)
			}
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
			if start < 0 && end >= manyVersions {
				off = s.passVersionsBack(off)
				break
			}
		}
		if off != 0 {
			n++
			s.offs[maxChunk-n] = off
		}
	}
	return n
}
