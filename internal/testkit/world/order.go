package world

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/loamdb/loam/lsm"
)

// order is a comparer with the keys that a keyspace of it has.
type order struct {
	cmp   *lsm.Comparer
	draw  func(rng *rand.Rand) string             // a key
	spell func(rng *rand.Rand, key string) []byte // another spelling of an equal key
	top   string                                  // after all keys
	bytes bool                                    // it is BytewiseComparer
}

func same(_ *rand.Rand, key string) []byte { return []byte(key) }

func plainKey(rng *rand.Rand) string {
	switch rng.IntN(12) {
	case 0:
		return ""
	case 1:
		return string([]byte{byte(rng.IntN(3)), 0}[:1+rng.IntN(2)])
	case 2:
		return "\xff" + string(rune('a'+rng.IntN(3)))
	case 3:
		return fmt.Sprintf("long/%0*d", 30+rng.IntN(60), rng.IntN(50))
	}
	return fmt.Sprintf("%c/%03d", 'a'+rng.IntN(4), rng.IntN(60))
}

// lower maps the letters A to Z to lower case.
func lower(b []byte) []byte {
	b = slices.Clone(b)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

// folded is an order under which keys that differ in case are equal.
var folded = &lsm.Comparer{Name: "world.Folded", Compare: func(a, b []byte) int {
	return bytes.Compare(lower(a), lower(b))
}}

// versioned orders keys by their bytes before the last '@', and keys with equal prefixes by the
// version after it: no version first, then the greatest version first.
var versioned = &lsm.Comparer{Name: "world.Versioned", EqualIsBytewise: true,
	Compare: func(a, b []byte) int {
		ap, av := cutVersion(a)
		bp, bv := cutVersion(b)
		if c := bytes.Compare(ap, bp); c != 0 {
			return c
		}
		if len(av) == 0 || len(bv) == 0 {
			return len(av) - len(bv)
		}
		return bytes.Compare(bv, av)
	}}

// cutVersion splits a key before its last '@'.
func cutVersion(key []byte) (prefix, version []byte) {
	if i := bytes.LastIndexByte(key, '@'); i >= 0 {
		return key[:i], key[i:]
	}
	return key, nil
}

// between has the empty key between others, just before m.
var between = &lsm.Comparer{Name: "world.Between", EqualIsBytewise: true,
	Compare: func(a, b []byte) int {
		if c := bytes.Compare(orM(a), orM(b)); c != 0 {
			return c
		}
		return len(a) - len(b) // of the empty key and m
	}}

// orM is the key, or m for the empty one.
func orM(key []byte) []byte {
	if len(key) == 0 {
		return []byte("m")
	}
	return key
}

// emptyBetween is the order of Settings.EmptyBetween. Many tables end with the empty key.
var emptyBetween = &order{cmp: between, spell: same, top: "~", draw: func(rng *rand.Rand) string {
	if rng.IntN(4) == 0 {
		return ""
	}
	return fmt.Sprintf("%c%02d", 'k'+rng.IntN(3), rng.IntN(12))
}}

var orders = []*order{
	{cmp: lsm.BytewiseComparer, draw: plainKey, spell: same, top: "\xff\xff\xff", bytes: true},
	{cmp: lsm.ReverseBytewiseComparer, draw: func(rng *rand.Rand) string {
		return "r" + plainKey(rng)
	}, spell: same, top: ""},
	{cmp: folded, top: "~", draw: func(rng *rand.Rand) string {
		return fmt.Sprintf("%c%c%02d", 'a'+rng.IntN(3), 'a'+rng.IntN(3), rng.IntN(9))
	}, spell: func(rng *rand.Rand, key string) []byte {
		b := []byte(key)
		for i, c := range b {
			if 'a' <= c && c <= 'z' && rng.IntN(3) == 0 {
				b[i] = c - 'a' + 'A'
			}
		}
		return b
	}},
	{cmp: versioned, spell: same, top: "~", draw: func(rng *rand.Rand) string {
		key := fmt.Sprintf("%c%02d", 'a'+rng.IntN(3), rng.IntN(6))
		if n := rng.IntN(5); n > 0 {
			key += fmt.Sprintf("@%d", n)
		}
		return key
	}},
}

// keys draws n keys or less, in order, each once.
func (o *order) keys(rng *rand.Rand, n int) []string {
	var keys []string
	for range n {
		keys = append(keys, o.draw(rng))
	}
	compare := func(a, b string) int { return o.cmp.Compare([]byte(a), []byte(b)) }
	slices.SortFunc(keys, compare)
	return slices.CompactFunc(keys, func(a, b string) bool { return compare(a, b) == 0 })
}

// concat is an operator of the tests' own, without Partial.
var concat = &lsm.MergeOperator{Name: "world.Concat",
	Full: func(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
		dst = append(dst, existing...)
		for i, o := range operands {
			if i > 0 || existing != nil {
				dst = append(dst, ',')
			}
			dst = append(dst, o...)
		}
		return dst, nil
	}}
