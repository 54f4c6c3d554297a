package rangedel

import (
	"math/bits"

	"github.com/loamdb/loam/internal/base"
)

// reach finds how far tombstones cover all keys from a fragment on, in a time that is
// logarithmic in the number of fragments: those of a log that is cut again and again touch each
// other, and each has a sequence number of its own.
type reach struct {
	// groups are the first fragments of each group of fragments that touch, and the number of
	// fragments.
	groups []int32
	// oldest is a heap of maxima: of oldest[i], the maximum of oldest[2*i] and oldest[2*i+1].
	// The second half is the sequence number of each fragment's oldest tombstone.
	oldest []base.SeqNum
}

func reachOf(cmp *base.Comparer, frags []Fragment) (r reach) {
	half := 1 << bits.Len(uint(len(frags)-1))
	r.oldest = make([]base.SeqNum, 2*half)
	for i := range frags {
		f := &frags[i]
		r.oldest[half+i] = f.Seqs[len(f.Seqs)-1]
		if i == 0 || cmp.Cmp(frags[i-1].Limit, f.Start) < 0 {
			r.groups = append(r.groups, int32(i))
		}
	}
	r.groups = append(r.groups, int32(len(frags)))
	for i := half - 1; i > 0; i-- {
		r.oldest[i] = max(r.oldest[2*i], r.oldest[2*i+1])
	}
	return r
}

// group returns the first fragment of the group of fragment i, and that of the next group.
func (r *reach) group(i int) (first, next int) {
	lo, hi := 0, len(r.groups)
	for lo < hi {
		h := int(uint(lo+hi) >> 1)
		if int(r.groups[h]) <= i {
			lo = h + 1
		} else {
			hi = h
		}
	}
	return int(r.groups[lo-1]), int(r.groups[lo])
}

// right is the first fragment from i on that a reader at sequence number at does not see, at
// most limit.
func (r *reach) right(i, limit int, at base.SeqNum) int {
	half := len(r.oldest) / 2
	p := half + i
	for r.oldest[p] <= at {
		for p&1 == 1 {
			p >>= 1
		}
		if p == 0 {
			return limit
		}
		p++
	}
	for p < half {
		if p *= 2; r.oldest[p] <= at {
			p++
		}
	}
	return min(p-half, limit)
}

// left is the fragment behind the last one up to i that a reader at sequence number at does not
// see, at least first.
func (r *reach) left(i, first int, at base.SeqNum) int {
	half := len(r.oldest) / 2
	p := half + i
	for r.oldest[p] <= at {
		for p&1 == 0 {
			p >>= 1
		}
		if p == 1 {
			return first
		}
		p--
	}
	for p < half {
		if p = 2*p + 1; r.oldest[p] <= at {
			p--
		}
	}
	return max(p-half+1, first)
}

// CoveredTo is the first key from key on without a tombstone that a reader at sequence number at
// sees; nil if that is key.
func (l *List) CoveredTo(key []byte, at base.SeqNum) []byte {
	if l == nil {
		return nil
	}
	i := l.after(key, false)
	if i == len(l.frags) || l.cmp.Cmp(l.frags[i].Start, key) > 0 {
		return nil
	}
	_, next := l.reach.group(i)
	if end := l.reach.right(i, next, at); end > i {
		return l.frags[end-1].Limit
	}
	return nil
}

// CoveredFrom is CoveredTo towards smaller keys: tombstones cover all keys from the result up to,
// not including, key. nil says that they do not cover those just before it. A nil key is behind
// all keys.
func (l *List) CoveredFrom(key []byte, at base.SeqNum) []byte {
	if l == nil || key == nil {
		return nil
	}
	i := l.after(key, true)
	if i == len(l.frags) || l.cmp.Cmp(l.frags[i].Start, key) >= 0 {
		return nil
	}
	first, _ := l.reach.group(i)
	if begin := l.reach.left(i, first, at); begin <= i {
		return l.frags[begin].Start
	}
	return nil
}
