package base

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// IndexedDB is the order of Chrome's IndexedDB directories ("idb_cmp1"). Keys
// are tuples (Chromium, leveldb_coding_scheme.md): a prefix of database, object
// store and index number, then fields that depend on it. Keys that are no such
// tuples come in byte order.
var IndexedDB = &Comparer{
	Name:    "idb_cmp1",
	Compare: compareIndexedDB,
	// Two encodings of one number, as -0 and 0, are equal.
	EqualIsBytewise: false,
}

// idbPrefix is the decoded start of a key; number 0 stands for metadata.
type idbPrefix struct{ database, store, index uint64 }

// cutIDBPrefix decodes three little-endian integers, whose lengths are packed
// into the first byte as 3, 3 and 2 bits of length-1.
func cutIDBPrefix(key []byte) (p idbPrefix, rest []byte, ok bool) {
	if len(key) == 0 {
		return p, nil, false
	}
	first, rest := key[0], key[1:]
	fields := []struct {
		value *uint64
		n     int
	}{{&p.database, int(first>>5) + 1}, {&p.store, int(first>>2&7) + 1}, {&p.index, int(first&3) + 1}}
	for _, f := range fields {
		if len(rest) < f.n {
			return p, nil, false
		}
		for i, c := range rest[:f.n] {
			*f.value |= uint64(c) << (8 * i)
		}
		rest = rest[f.n:]
	}
	return p, rest, true
}

// Fields of metadata keys, by the byte behind the prefix: v a varint, s a
// string with its length, b a byte. Types that are not listed have none.
var (
	idbGlobalFields   = map[byte]string{100: "v", 201: "ss"}
	idbDatabaseFields = map[byte]string{50: "vb", 100: "vvb", 150: "v", 151: "vv", 200: "s", 201: "vs"}
)

// Index numbers with a meaning of their own; user indexes start at 30.
const idbFirstUserIndex = 30

func compareIndexedDB(a, b []byte) int {
	r, ok := compareIDBKeys(a, b)
	if !ok {
		return bytes.Compare(a, b)
	}
	return r
}

func compareIDBKeys(a, b []byte) (r int, ok bool) {
	pa, a, okA := cutIDBPrefix(a)
	pb, b, okB := cutIDBPrefix(b)
	if !okA || !okB {
		return 0, false
	}
	if r := cmp.Or(cmp.Compare(pa.database, pb.database), cmp.Compare(pa.store, pb.store), cmp.Compare(pa.index, pb.index)); r != 0 {
		return r, true
	}
	switch {
	case pa.database == 0:
		return compareIDBMetadata(a, b, idbGlobalFields)
	case pa.store == 0:
		return compareIDBMetadata(a, b, idbDatabaseFields)
	case len(a) == 0 || len(b) == 0:
		return cmp.Compare(len(a), len(b)), true
	case pa.index < idbFirstUserIndex:
		r, _, _, ok := compareIDBValues(a, b)
		return r, ok
	}
	return compareIDBIndexKeys(a, b)
}

// compareIDBIndexKeys compares indexed value, then primary key, then the
// sequence number that stands between them.
func compareIDBIndexKeys(a, b []byte) (r int, ok bool) {
	if r, a, b, ok = compareIDBValues(a, b); r != 0 || !ok {
		return r, ok
	}
	seqA, a, okA := cutOptionalVarint(a)
	seqB, b, okB := cutOptionalVarint(b)
	if !okA || !okB {
		return 0, false
	}
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b)), true
	}
	if r, _, _, ok = compareIDBValues(a, b); r != 0 || !ok {
		return r, ok
	}
	return cmp.Compare(seqA, seqB), true
}

func compareIDBMetadata(a, b []byte, fields map[byte]string) (r int, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, false
	}
	if a[0] != b[0] {
		return cmp.Compare(a[0], b[0]), true
	}
	kinds, listed := fields[a[0]]
	a, b = a[1:], b[1:]
	if !listed {
		return bytes.Compare(a, b), true
	}
	for _, kind := range kinds {
		var okA, okB bool
		switch kind {
		case 'v':
			var va, vb uint64
			va, a, okA = cutVarint(a)
			vb, b, okB = cutVarint(b)
			r = cmp.Compare(va, vb)
		case 's':
			var sa, sb []byte
			sa, a, okA = cutCounted(a, 2)
			sb, b, okB = cutCounted(b, 2)
			r = bytes.Compare(sa, sb) // UTF-16, big-endian
		case 'b':
			if okA, okB = len(a) > 0, len(b) > 0; okA && okB {
				r = cmp.Compare(a[0], b[0])
				a, b = a[1:], b[1:]
			}
		}
		if !okA || !okB {
			return 0, false
		}
		if r != 0 {
			return r, true
		}
	}
	return 0, true
}

// idbRank orders the types of values by their type byte; a higher rank comes
// first. Bytes: 0 null, 1 string, 2 date, 3 number, 4 array, 5 minimum, 6 binary.
var idbRank = [...]int8{0: 0, 1: 3, 2: 4, 3: 5, 4: 1, 5: 7, 6: 2}

const (
	idbNull, idbString, idbDate, idbNumber = 0, 1, 2, 3
	idbArray, idbMin                       = 4, 5
)

// compareIDBValues compares the encoded values at the front of a and b, and
// returns what follows them when they are equal. Arrays nest to any depth, so
// they are walked with a stack of their own.
func compareIDBValues(a, b []byte) (r int, restA, restB []byte, ok bool) {
	type array struct {
		left uint64 // elements that both have left
		then int    // the answer when those are equal
	}
	stack := make([]array, 0, 4)
	for {
		if len(a) == 0 || len(b) == 0 || int(a[0]) >= len(idbRank) || int(b[0]) >= len(idbRank) {
			return 0, nil, nil, false
		}
		kind := a[0]
		if r := cmp.Compare(idbRank[b[0]], idbRank[kind]); r != 0 {
			return r, a, b, true
		}
		a, b = a[1:], b[1:]
		if kind == idbArray {
			var na, nb uint64
			var okA, okB bool
			na, a, okA = cutVarint(a)
			nb, b, okB = cutVarint(b)
			if !okA || !okB {
				return 0, nil, nil, false
			}
			stack = append(stack, array{left: min(na, nb), then: cmp.Compare(na, nb)})
		} else if r, a, b, ok = compareIDBScalars(kind, a, b); !ok || r != 0 {
			return r, a, b, ok
		}
		for len(stack) > 0 && stack[len(stack)-1].left == 0 {
			if then := stack[len(stack)-1].then; then != 0 {
				return then, a, b, true
			}
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			return 0, a, b, true
		}
		stack[len(stack)-1].left--
	}
}

func compareIDBScalars(kind byte, a, b []byte) (r int, restA, restB []byte, ok bool) {
	switch kind {
	case idbNull, idbMin:
		return 0, a, b, true
	case idbDate, idbNumber:
		if len(a) < 8 || len(b) < 8 {
			return 0, nil, nil, false
		}
		x := math.Float64frombits(binary.LittleEndian.Uint64(a))
		y := math.Float64frombits(binary.LittleEndian.Uint64(b))
		return cmp.Compare(x, y), a[8:], b[8:], true
	}
	unit := 1
	if kind == idbString {
		unit = 2
	}
	sa, a, okA := cutCounted(a, unit)
	sb, b, okB := cutCounted(b, unit)
	return bytes.Compare(sa, sb), a, b, okA && okB
}

func cutVarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

func cutOptionalVarint(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, b, true
	}
	return cutVarint(b)
}

// cutCounted takes a varint count and that many units of unit bytes.
func cutCounted(b []byte, unit int) (s, rest []byte, ok bool) {
	n, b, ok := cutVarint(b)
	if !ok || n > uint64(len(b)/unit) {
		return nil, nil, false
	}
	end := int(n) * unit
	return b[:end], b[end:], true
}
