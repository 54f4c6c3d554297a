package colblk

import (
	"bytes"
	"math/bits"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
)

// Get returns the index of the entry that l asks for, -1 when there is none.
func (v *Block) Get(cmp *base.Comparer, l base.Lookup) int {
	key := l.Key()
	lo, hi := 0, v.n
	if v.order() != plain {
		if lo, hi = v.narrow(key); lo == hi {
			return -1
		}
		// Usually exactly one key has the abbreviation.
		if hi-lo == 1 && v.exact() {
			if len(key) == v.prefixLen()+v.abbrevLen() && v.Trailer(lo).Seq() <= l.Seq {
				return lo
			}
			return -1
		}
	}
	i := v.seekIn(cmp, key, l.Trailer(), lo, hi)
	if i < hi && v.compareKey(cmp, key, i) == 0 {
		return i
	}
	return -1
}

// SeekGE returns the index of the first entry at or after (key, t) in internal
// order, Len() when there is none.
func (v *Block) SeekGE(cmp *base.Comparer, key []byte, t base.Trailer) int {
	lo, hi := 0, v.n
	if v.order() != plain {
		lo, hi = v.narrow(key)
	}
	return v.seekIn(cmp, key, t, lo, hi)
}

// exact reports whether all keys have one length and end with their abbreviations.
func (v *Block) exact() bool { return v.widths.of(colLength) == 0 && v.tails == 0 }

// seekIn returns the index of the first entry at or after (key, trailer), which is from lo to hi.
// REQUIRES: as compareKey, for all entries from lo to hi.
func (v *Block) seekIn(cmp *base.Comparer, key []byte, trailer base.Trailer, lo, hi int) int {
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if c := v.compareKey(cmp, key, m); c < 0 || c == 0 && v.Trailer(m) > trailer {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// narrow finds by abbreviations the range [lo, hi) of the entries whose keys have that of
// key; those before lo are smaller. The range is empty where key does not begin with the prefix.
func (v *Block) narrow(key []byte) (lo, hi int) {
	p := prefix.Prefix(v.prefixBytes())
	if !p.In(key) {
		if (bytes.Compare(key, p) < 0) != (v.order() == reverse) {
			return 0, 0
		}
		return v.n, v.n
	}
	x := base.Prefix64(key, len(p))
	if v.order() == reverse {
		x = ^x
	}
	x >>= 64 - 8*(v.flags&abbrevLenBits)
	first := v.abbrevBase()
	if x < first {
		return 0, 0
	}
	x -= first
	c := v.col(colAbbrev)
	if c.width == 0 {
		if x > 0 {
			return v.n, v.n
		}
		return 0, v.n
	}
	lo = c.lowerBound(v.n, x)
	if lo >= v.n || c.at(lo) != x {
		return lo, lo
	}
	return lo, c.tiesEnd(v.n, lo)
}

// halveAbove is the longest range of abbreviations that is counted, not halved.
const halveAbove = 64

// below is 1 when a < b, else 0: the borrow of a - b, without a branch.
func below(a, b uint64) int {
	_, borrow := bits.Sub64(a, b, 0)
	return int(borrow)
}

// lowerBound is prefix.Search in a column of n ascending elements.
func (c column) lowerBound(n int, x uint64) int {
	lo := 0
	for n > halveAbove {
		half := n >> 1
		lo += half & -below(c.at(lo+half-1), x)
		n -= half
	}
	// Of every eight elements the last one is counted, then those of the eight that the
	// count leads to.
	at := 0
	for i := 7; i < n; i += 8 {
		at += below(c.at(lo+i), x)
	}
	lo += at * 8
	n = min(n-at*8, 7)
	at = 0
	for i := range n {
		at += below(c.at(lo+i), x)
	}
	return lo + at
}

// tiesEnd is the first of n elements after lo that is not that of lo. Ties are few, mostly: the
// steps begin small and double.
func (c column) tiesEnd(n, lo int) int {
	x := c.at(lo)
	hi := lo + 1
	for step := 1; hi < n && c.at(hi) == x; step *= 2 {
		lo, hi = hi, hi+step
	}
	hi = min(hi, n)
	for lo+1 < hi { // element lo is a tie, element hi is none
		if m := int(uint(lo+hi) >> 1); c.at(m) == x {
			lo = m
		} else {
			hi = m
		}
	}
	return hi
}

// compareKey compares user key i with key. REQUIRES: narrow says that their
// abbreviations are the same, or the order is plain.
func (v *Block) compareKey(cmp *base.Comparer, key []byte, i int) int {
	if v.order() == plain {
		return cmp.Cmp(v.tail(i), key)
	}
	rest := key[v.prefixLen():]
	k := v.abbrevLen()
	c := v.abbrevKeyLen(i) - min(len(rest), k)
	if c == 0 {
		c = bytes.Compare(v.tail(i), rest[min(len(rest), k):])
	}
	if v.order() == reverse {
		return -c
	}
	return c
}
