// Package radix sorts entries of arenas by the abbreviations of their keys.
package radix

import (
	"math/bits"
	"runtime"
)

// Pair is an entry with the abbreviation of its key. Pairs are faster to move than columns.
type Pair struct {
	Ab  uint64
	Off uint32 // of the entry in its arena
	// Same is the caller's, and moves along.
	Same bool
}

const (
	digitBits = 8
	digits    = 1 << digitBits
	// Few is how many pairs insertion sort takes.
	Few = 40
	// YieldEvery is how many pairs a sort in the background moves between two yields.
	YieldEvery = 2048
)

// Sort orders a by the abbreviations. Pairs with equal ones stay in their order. tmp is as long
// as a. With yield, which is for a sort in the background, it lets other goroutines run.
func Sort(a, tmp []Pair, yield bool) {
	if sorted := SortInto(a, tmp, yield); len(a) > 0 && &sorted[0] != &a[0] {
		copy(a, sorted)
	}
}

// SortInto is Sort that returns the pairs in order, in the memory of a or of tmp. What the other
// one has afterwards is undefined.
func SortInto(a, tmp []Pair, yield bool) []Pair {
	if len(a) <= Few {
		insertion(a)
		return a
	}
	shift := topShift(a)
	tmp = tmp[:len(a)]
	var count [digits]int32
	if distribute(a, tmp, shift, &count) {
		a, tmp = tmp, a
	}
	sortBelow(a, tmp, shift, &count, yield)
	return a
}

// topShift is the lowest bit of the highest digit in which the pairs differ.
func topShift(a []Pair) int {
	var diff uint64
	for i := range a {
		diff |= a[i].Ab ^ a[0].Ab
	}
	return max(64-bits.LeadingZeros64(diff)-digitBits, 0)
}

// distribute counts the pairs with each digit and moves them to tmp in its order, unless all have
// the same one.
func distribute(a, tmp []Pair, shift int, count *[digits]int32) (moved bool) {
	for i := range a {
		count[a[i].Ab>>shift&(digits-1)]++
	}
	if int(count[a[0].Ab>>shift&(digits-1)]) == len(a) {
		return false
	}
	var next [digits]int32
	sum := int32(0)
	for d, n := range count {
		next[d] = sum
		sum += n
	}
	for i := range a {
		d := a[i].Ab >> shift & (digits - 1)
		tmp[next[d]] = a[i]
		next[d]++
	}
	return true
}

// sort orders a by the bits of abbreviations below shift + digitBits; the bits above are equal.
// Each recursion sorts by the next digit.
func sort(a, tmp []Pair, shift int, yield bool) {
	if len(a) <= Few {
		insertion(a)
		return
	}
	var count [digits]int32
	if tmp := tmp[:len(a)]; distribute(a, tmp, shift, &count) {
		copy(a, tmp)
		if yield && len(a) > YieldEvery {
			runtime.Gosched()
		}
	}
	sortBelow(a, tmp, shift, &count, yield)
}

// sortBelow orders the pairs of each digit, of which there are count, by the bits below shift.
func sortBelow(a, tmp []Pair, shift int, count *[digits]int32, yield bool) {
	if shift == 0 {
		return
	}
	below := max(shift-digitBits, 0)
	from := int32(0)
	for _, n := range count {
		if n > 1 {
			sort(a[from:from+n], tmp, below, yield)
		}
		from += n
	}
}

func insertion(a []Pair) {
	for i := 1; i < len(a); i++ {
		p := a[i]
		j := i
		for j > 0 && a[j-1].Ab > p.Ab {
			a[j] = a[j-1]
			j--
		}
		a[j] = p
	}
}
