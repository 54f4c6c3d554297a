package base

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// IndexedDB is the order of Chrome's IndexedDB directories ("idb_cmp1"). Keys
// are tuples (Chromium, leveldb_coding_scheme.md): a prefix of database, object
// store and index number, then fields that depend on it. Bytes that are no such tuple
// sort after the tuples with which they share their beginning.
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
	}{{&p.database, int(first>>5) + 1}, {&p.store, int(first>>2&7) + 1}, {&p.index, int(first&3) +
		1}}
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
// string with its length, b a byte. Types outside the list have none.
var (
	idbGlobalFields   = map[byte]string{100: "v", 201: "ss"}
	idbDatabaseFields = map[byte]string{50: "vb", 100: "vvb", 150: "v", 151: "vv", 200: "s",
		201: "vs"}
)

// Index numbers with a meaning of their own; user indexes start at 30.
const idbFirstUserIndex = 30

// compareIndexedDB compares field by field. Two keys whose fields so far are equal
// go on with the same kind of field; there, whatever cannot be decoded comes after
// all that can, in the order of the bytes that are left. That makes the order total
// for any bytes: a field of a key depends on nothing but the key.
func compareIndexedDB(a, b []byte) int {
	pa, restA, okA := cutIDBPrefix(a)
	pb, restB, okB := cutIDBPrefix(b)
	if !okA || !okB {
		return compareMalformed(a, b, okA, okB)
	}
	a, b = restA, restB
	if r := cmp.Or(cmp.Compare(pa.database, pb.database), cmp.Compare(pa.store, pb.store),
		cmp.Compare(pa.index, pb.index)); r != 0 {
		return r
	}
	switch {
	case pa.database == 0:
		return compareIDBMetadata(a, b, idbGlobalFields)
	case pa.store == 0:
		return compareIDBMetadata(a, b, idbDatabaseFields)
	case len(a) == 0 || len(b) == 0:
		return cmp.Compare(len(a), len(b))
	case pa.index < idbFirstUserIndex:
		r, _, _ := compareIDBValues(a, b)
		return r
	}
	return compareIDBIndexKeys(a, b)
}

// compareMalformed compares what begins with a field that at least one of both
// has malformed.
func compareMalformed(a, b []byte, okA, okB bool) int {
	switch {
	case okA:
		return -1
	case okB:
		return 1
	}
	return bytes.Compare(a, b)
}

// compareIDBIndexKeys compares indexed value, then primary key, then the
// sequence number that stands between them.
func compareIDBIndexKeys(a, b []byte) int {
	r, a, b := compareIDBValues(a, b)
	if r != 0 || len(a) == 0 && len(b) == 0 {
		return r
	}
	seqA, restA, okA := cutOptionalVarint(a)
	seqB, restB, okB := cutOptionalVarint(b)
	if !okA || !okB {
		return compareMalformed(a, b, okA, okB)
	}
	a, b = restA, restB
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	if r, _, _ = compareIDBValues(a, b); r != 0 {
		return r
	}
	return cmp.Compare(seqA, seqB)
}

func compareIDBMetadata(a, b []byte, fields map[byte]string) int {
	if len(a) == 0 || len(b) == 0 {
		return compareMalformed(a, b, len(a) > 0, len(b) > 0)
	}
	if a[0] != b[0] {
		return cmp.Compare(a[0], b[0])
	}
	kinds, listed := fields[a[0]]
	a, b = a[1:], b[1:]
	if !listed {
		return bytes.Compare(a, b)
	}
	for _, kind := range kinds {
		r := 0
		restA, restB := a, b
		var okA, okB bool
		switch kind {
		case 'v':
			var va, vb uint64
			va, restA, okA = cutVarint(a)
			vb, restB, okB = cutVarint(b)
			r = cmp.Compare(va, vb)
		case 's':
			var sa, sb []byte
			sa, restA, okA = cutCounted(a, 2)
			sb, restB, okB = cutCounted(b, 2)
			r = bytes.Compare(sa, sb) // UTF-16, big-endian
		case 'b':
			if okA, okB = len(a) > 0, len(b) > 0; okA && okB {
				r = cmp.Compare(a[0], b[0])
				restA, restB = a[1:], b[1:]
			}
		}
		if !okA || !okB {
			return compareMalformed(a, b, okA, okB)
		}
		if r != 0 {
			return r
		}
		a, b = restA, restB
	}
	return 0
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
func compareIDBValues(a, b []byte) (r int, restA, restB []byte) {
	type array struct {
		left uint64 // elements that both have left
		then int    // the answer when those are equal
	}
	stack := make([]array, 0, 4)
	for {
		okA, okB := len(a) > 0 && int(a[0]) < len(idbRank), len(b) > 0 && int(b[0]) < len(idbRank)
		if !okA || !okB {
			if r := compareMalformed(a, b, okA, okB); r != 0 {
				return r, nil, nil
			}
			return 0, nil, nil // the same bytes: nothing is left to compare
		}
		kind := a[0]
		if r := cmp.Compare(idbRank[b[0]], idbRank[kind]); r != 0 {
			return r, nil, nil
		}
		a, b = a[1:], b[1:]
		if kind == idbArray {
			na, restA, okA := cutVarint(a)
			nb, restB, okB := cutVarint(b)
			if !okA || !okB {
				return compareMalformed(a, b, okA, okB), nil, nil
			}
			a, b = restA, restB
			stack = append(stack, array{left: min(na, nb), then: cmp.Compare(na, nb)})
		} else if r, a, b = compareIDBScalars(kind, a, b); r != 0 {
			return r, nil, nil
		}
		for len(stack) > 0 && stack[len(stack)-1].left == 0 {
			if then := stack[len(stack)-1].then; then != 0 {
				return then, nil, nil
			}
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			return 0, a, b
		}
		stack[len(stack)-1].left--
	}
}

// compareIDBScalars returns what follows when both are equal; malformed bytes end the key.
func compareIDBScalars(kind byte, a, b []byte) (r int, restA, restB []byte) {
	switch kind {
	case idbNull, idbMin:
		return 0, a, b
	case idbDate, idbNumber:
		if len(a) < 8 || len(b) < 8 {
			return compareMalformed(a, b, len(a) >= 8, len(b) >= 8), nil, nil
		}
		x := math.Float64frombits(binary.LittleEndian.Uint64(a))
		y := math.Float64frombits(binary.LittleEndian.Uint64(b))
		return cmp.Compare(x, y), a[8:], b[8:]
	}
	unit := 1
	if kind == idbString {
		unit = 2
	}
	sa, restA, okA := cutCounted(a, unit)
	sb, restB, okB := cutCounted(b, unit)
	if !okA || !okB {
		return compareMalformed(a, b, okA, okB), nil, nil
	}
	return bytes.Compare(sa, sb), restA, restB
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
