package equalkeys

import (
	"bytes"
	"math/rand/v2"
	"strings"

	"github.com/loamdb/loam/lsm"
)

// order is a comparer, and keys in spellings of all kinds.
type order struct {
	cmp   *lsm.Comparer
	spell func(rng *rand.Rand) []byte
}

var orders = []order{
	{&lsm.Comparer{Name: "test.Caseless", Compare: caseless}, word},
	{&lsm.Comparer{
		Name:    "test.DescendingCaseless",
		Compare: func(a, b []byte) int { return caseless(b, a) },
	}, word},
	{&lsm.Comparer{Name: "test.Versions", Compare: versions, Separator: versionsSeparator},
		versioned},
	{lsm.ReverseBytewiseComparer, word},
}

func caseless(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) }

// word is a key of few letters, the empty one among them.
func word(rng *rand.Rand) []byte {
	key := make([]byte, rng.IntN(4))
	for i := range key {
		key[i] = "abABc"[rng.IntN(5)]
	}
	return key
}

// versions orders keys by name, and those of a name by descending version, a number of any
// length behind "@". The key without a version comes first, and is the one with an empty number.
func versions(a, b []byte) int {
	name, version := cutVersion(a)
	other, older := cutVersion(b)
	if c := strings.Compare(name, other); c != 0 {
		return c
	}
	if version == "" || older == "" {
		return len(version) - len(older)
	}
	version, older = strings.TrimLeft(version, "0"), strings.TrimLeft(older, "0")
	if c := len(older) - len(version); c != 0 {
		return c
	}
	return strings.Compare(older, version)
}

func cutVersion(key []byte) (name, version string) {
	name, version, _ = strings.Cut(string(key), "@")
	return name, version
}

// versionsSeparator is the name of b where that is another one than a's: the first key of it.
func versionsSeparator(dst, a, b []byte) []byte {
	name, _ := cutVersion(a)
	if other, _ := cutVersion(b); name != other && versions([]byte(other), b) < 0 {
		return append(dst, other...)
	}
	return append(dst, a...)
}

func versioned(rng *rand.Rand) []byte {
	key := append([]byte{}, "abc"[:rng.IntN(4)]...)
	return append(key, []string{"", "", "@", "@0", "@1", "@01", "@001", "@2", "@02",
		"@10"}[rng.IntN(10)]...)
}
