package colblk

import (
	"bytes"

	"github.com/loamdb/loam/internal/base"
)

// CheckOrder checks that entries ascend strictly in internal order, and that no user key
// occurs twice in a block that says so. Usually it compares abbreviations and no keys.
func (v *Block) CheckOrder(cmp *base.Comparer) error {
	if v.n == 0 {
		return nil
	}
	c := v.col(colAbbrev)
	if err := v.checkPadding(c); err != nil {
		return err
	}
	last := c.at(0)
	for i := 1; i < v.n; i++ {
		x := c.at(i)
		if x > last {
			last = x
			continue
		}
		r := -1
		if x == last {
			r = v.compareNeighbours(cmp, i)
		}
		switch {
		case x < last || r > 0 || r == 0 && v.Trailer(i-1) <= v.Trailer(i):
			return corrupt("entry %d: keys do not ascend", i)
		case r == 0 && v.flags&flagDistinct != 0:
			return corrupt("entry %d: the key of the one before, in a block without versions", i)
		}
	}
	return nil
}

// compareNeighbours compares the keys of entries i-1 and i, which have the same abbreviation.
func (v *Block) compareNeighbours(cmp *base.Comparer, i int) int {
	a, b := v.tail(i-1), v.tail(i)
	if v.order() == plain {
		return cmp.Cmp(a, b)
	}
	r := v.abbrevKeyLen(i-1) - v.abbrevKeyLen(i)
	if r == 0 {
		r = bytes.Compare(a, b)
	}
	if v.order() == reverse {
		return -r
	}
	return r
}

// checkPadding checks that the bytes of an abbreviation after its key's end are zeros, and that
// each abbreviation is as long as its key needs: otherwise abbreviations might ascend and keys not.
// The last abbreviation is the largest if they ascend.
func (v *Block) checkPadding(c column) error {
	first, mask := v.abbrevBase(), masks[v.flags&abbrevLenBits]
	if x := c.at(v.n - 1); x > mask-first {
		return corrupt("an abbreviation of more than %d bytes", v.abbrevLen())
	}
	lengths := v.col(colLength)
	if lengths.width == 0 {
		return nil
	}
	flip := flipOf(v.order()) & mask
	for i := range v.n {
		x := (first + c.at(i)) ^ flip
		if x&masks[v.abbrevLen()-int(lengths.at(i))] != 0 {
			return corrupt("entry %d: the abbreviation goes on after the key", i)
		}
	}
	return nil
}
