// Package prefix finds keys in sorted sets by comparing integers: the shared
// prefix of the keys, the abbreviation of each key after it, and the search in a
// column of abbreviations. Blocks, levels, the memtable's B+tree, its sort and
// merges are built on it.
//
//  1. Neighbours in a sorted set begin with the same bytes: a block of keys
//     "user0001:name", "user0002:name" has the prefix "user000". Comparing it over
//     and over tells nothing, so it is compared once for the whole set.
//  2. The eight bytes after the prefix, as an integer whose order is the
//     comparer's, are the key's abbreviation (base.Comparer.Abbrev). It usually distinguishes keys,
//     and eight abbreviations share a cache line, while each key is a cache miss of its own.
//  3. A lower bound is the number of abbreviations that are smaller. Adding up the
//     outcomes of comparisons, instead of branching on them, leaves nothing for the
//     processor to mispredict, and the loads do not wait for each other.
//  4. Where abbreviations are equal, and only there, whole keys are compared. Not
//     even there when all keys have one length that ends within the abbreviation
//     (Length.Exact).
//  5. A key without the prefix that joins the set shortens the prefix. The
//     abbreviations after the shorter prefix follow from the old ones and the
//     bytes that leave the prefix (Widening): no key is read again.
//
// Only comparers that order by bytes have abbreviations. For all others the prefix
// is empty and every abbreviation 0, so that step 4 compares keys everywhere, and
// the callers need no second way.
//
// Everything here is safe for concurrent use as long as the arguments are.
package prefix

import (
	"bytes"

	"github.com/loamdb/loam/internal/base"
)

// Prefix is what all keys of a set begin with. It aliases a key of the set, or a
// copy of its owner's.
type Prefix []byte

// Of is the longest prefix of a set of sorted keys, of which first and last are
// the ends: what these two share, all keys between them share.
func Of(c *base.Comparer, first, last []byte) Prefix {
	if !c.HasAbbrev() {
		return nil
	}
	return first[:base.SharedPrefixLen(first, last)]
}

// OfOne is the prefix of a set of one key: all of it.
func OfOne(c *base.Comparer, key []byte) Prefix {
	if !c.HasAbbrev() {
		return nil
	}
	return key
}

// With is the prefix of the set when key joins it.
func (p Prefix) With(key []byte) Prefix { return p[:base.SharedPrefixLen(p, key)] }

// In reports whether key begins with the prefix, so that its abbreviation can be
// compared with those of the set.
func (p Prefix) In(key []byte) bool { return bytes.HasPrefix(key, p) }

// Before reports whether a key that is not In sorts before all keys that are. If
// not, it sorts after all of them: they are neighbours.
func (p Prefix) Before(c *base.Comparer, key []byte) bool { return c.Cmp(key, p) < 0 }

// Abbrev is the abbreviation of a key that is In.
func (p Prefix) Abbrev(c *base.Comparer, key []byte) uint64 { return c.Abbrev(key, len(p)) }

// Flip is what the comparer's abbreviations are XORed with: without it they are
// raw key bytes, most significant first.
func Flip(c *base.Comparer) uint64 { return c.Abbrev(nil, 0) }

// Widening turns abbreviations after a prefix into those after a shorter one.
type Widening struct {
	bytes uint64 // the bytes that leave the prefix, at their place in the new abbreviation
	shift uint
	flip  uint64
}

// Widen is the widening from p to its first n bytes. flip is what the
// abbreviations are XORed with, see Flip.
func (p Prefix) Widen(flip uint64, n int) Widening {
	leave := len(p) - n
	if leave == 0 {
		return Widening{}
	}
	return Widening{bytes: base.Prefix64(p, n), shift: uint(8 * min(leave, 8)), flip: flip}
}

// Apply is the new abbreviation of the key that had this one.
func (w *Widening) Apply(abbrev uint64) uint64 {
	return (abbrev^w.flip)>>w.shift ^ w.bytes ^ w.flip
}

// ApplyAll replaces a column of abbreviations.
func (w *Widening) ApplyAll(abbrevs []uint64) {
	for i, x := range abbrevs {
		abbrevs[i] = w.Apply(x)
	}
}

// Length is the length of all keys of a set, Mixed when they differ.
type Length int32

// Mixed says that keys differ in length.
const Mixed Length = -1

// maxLength is above all lengths that can make abbreviations exact.
const maxLength = 1 << 30

// LengthOf is the Length of a set of one key.
func LengthOf(key []byte) Length { return Length(min(len(key), maxLength)) }

// With is the Length of the set when key joins it.
func (l Length) With(key []byte) Length {
	if len(key) != int(l) {
		return Mixed
	}
	return l
}

// Exact reports whether two keys of the set are equal when their abbreviations,
// after a prefix of n bytes, are.
func (l Length) Exact(c *base.Comparer, n int) bool {
	return l >= 0 && int(l) <= n+8 && c.HasAbbrev()
}
