package prefix

import "math/bits"

// below is 1 when a < b, else 0. Without a branch: it is the borrow of a - b.
func below(a, b uint64) int {
	_, borrow := bits.Sub64(a, b, 0)
	return int(borrow)
}

// halveAbove is the longest range of abbreviations that is counted, not halved.
const halveAbove = 64

// Search is the number of abbreviations below x, which ascend: the index of the
// first one that is not. It halves long columns, by arithmetic in place of a branch that
// would be mispredicted every other time. Of the rest it counts every eighth one first,
// and then those of the one eighth that the count leads to: the loads of a count do not
// wait for each other.
func Search(abbrevs []uint64, x uint64) int {
	lo, n := 0, len(abbrevs)
	for n > halveAbove {
		half := n >> 1
		lo += half & -below(abbrevs[lo+half-1], x)
		n -= half
	}
	a := abbrevs[lo : lo+n]
	at := 0
	for i := 7; i < len(a); i += 8 {
		at += below(a[i], x)
	}
	at *= 8
	for _, y := range a[at:min(at+7, len(a))] {
		at += below(y, x)
	}
	return lo + at
}

// Width is the length of the arrays that SearchArray takes.
const Width = 64

// SearchArray is Search in an array. Behind its last entry it holds the greatest
// integer there is, so the answer may exceed the number of entries when x is that.
func SearchArray(a *[Width]uint64, x uint64) int {
	const part = Width / 8
	n := below(a[part-1], x) + below(a[2*part-1], x) + below(a[3*part-1], x) +
		below(a[4*part-1], x) +
		below(a[5*part-1], x) + below(a[6*part-1], x) + below(a[7*part-1], x)
	n *= part
	p := (*[part]uint64)(a[n&(Width-1):])
	return n + below(p[0], x) + below(p[1], x) + below(p[2], x) + below(p[3], x) +
		below(p[4], x) + below(p[5], x) + below(p[6], x) + below(p[7], x)
}

// TiesEnd is the first index after lo whose abbreviation is not that of lo. Ties
// are few, mostly: the steps begin small and double.
func TiesEnd(abbrevs []uint64, lo int) int {
	x := abbrevs[lo]
	hi := lo + 1
	for step := 1; hi < len(abbrevs) && abbrevs[hi] == x; step *= 2 {
		lo, hi = hi, hi+step
	}
	hi = min(hi, len(abbrevs))
	// Entry lo is a tie, entry hi is none.
	for lo+1 < hi {
		mid := int(uint(lo+hi) >> 1)
		if abbrevs[mid] == x {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// Range finds where a key with abbreviation x belongs: entries before lo are
// smaller, those from hi on are greater, and those between have its abbreviation,
// so that only comparing keys tells.
func Range(abbrevs []uint64, x uint64) (lo, hi int) {
	lo = Search(abbrevs, x)
	if lo == len(abbrevs) || abbrevs[lo] != x {
		return lo, lo
	}
	return lo, TiesEnd(abbrevs, lo)
}
