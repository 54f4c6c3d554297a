package base

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Comparer orders user keys. A database remembers the Name of the comparer it
// was created with and refuses to open with another. All functions must be
// pure and safe for concurrent use.
type Comparer struct {
	// Name is written to the MANIFEST.
	Name string
	// Compare returns a value <0, 0 or >0 for a<b, a==b, a>b.
	Compare func(a, b []byte) int
	// Separator appends to dst a short key k with a <= k < b, for a < b.
	// nil: a itself.
	Separator func(dst, a, b []byte) []byte
	// Successor appends to dst a short key k >= a. nil: a itself.
	Successor func(dst, a []byte) []byte
	// EqualIsBytewise says that Compare(a, b) == 0 only if a and b are the same
	// bytes. When false, hash indexes and filters are not used.
	EqualIsBytewise bool
	// Interrupted reports whether a comparison of the calling goroutine since the last call asked
	// for an early end. It is not nil where Compare takes a lock that the program holds while it
	// runs, such as that of an interpreter: goroutines that compare side by side, or beside the
	// program, wait for each other most of the time. So the goroutines of calls compare as far as
	// possible: a write orders what it wrote, a load sorts where it adds.
	Interrupted func() bool
}

// BuiltIn reports whether the comparer is one of Loam's, which call nothing.
func (c *Comparer) BuiltIn() bool {
	return c == Bytewise || c == ReverseBytewise || c == IndexedDB
}

// Guard takes a step that compares. The error is that of a panic, or ErrGoexit where the comparer
// ends its goroutine: one of the program's own takes the step on another goroutine. Serial ones are
// of languages that have no Goexit.
func (c *Comparer) Guard(step func() error) error {
	if c.BuiltIn() || c.Serial() {
		return Protect(step)
	}
	return Alone(step)
}

// Guarded is c.Guard of a method with its argument. Under Loam's own comparers, which do not panic,
// the call takes no memory.
func Guarded[T, A any](c *Comparer, step func(*T, A), t *T, arg A) error {
	if c.BuiltIn() {
		step(t, arg)
		return nil
	}
	return c.Guard(func() error { step(t, arg); return nil })
}

// Serial reports whether comparisons wait for each other, see Interrupted.
func (c *Comparer) Serial() bool { return c.Interrupted != nil }

// CheckInterrupted returns ErrInterrupted if a comparison of this goroutine asked for an early end.
func (c *Comparer) CheckInterrupted() error {
	if c.Interrupted != nil && c.Interrupted() {
		return ErrInterrupted
	}
	return nil
}

// The comparers whose order is known without asking Compare are recognised by
// their addresses: a copy of one, which may have another Compare, is not.

// Bytewise is LevelDB's default comparer.
var Bytewise = &bytewise

var bytewise = Comparer{
	Name:            "leveldb.BytewiseComparator",
	Compare:         bytes.Compare,
	Separator:       bytewiseSeparator,
	Successor:       bytewiseSuccessor,
	EqualIsBytewise: true,
}

// ReverseBytewise orders keys by descending bytes, under RocksDB's name for it.
var ReverseBytewise = &reverseBytewise

var reverseBytewise = Comparer{
	Name:            "rocksdb.ReverseBytewiseComparator",
	Compare:         func(a, b []byte) int { return bytes.Compare(b, a) },
	EqualIsBytewise: true,
}

// ComparerNamed finds one of the comparers that real stores use; if there is
// none of that name, nil and the names there are.
func ComparerNamed(name string) (c *Comparer, names []string) {
	for _, c := range []*Comparer{Bytewise, ReverseBytewise, IndexedDB} {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return nil, names
}

// Cmp is Compare without the indirect call for the default order.
func (c *Comparer) Cmp(a, b []byte) int {
	if c == &bytewise {
		return bytes.Compare(a, b)
	}
	return c.Compare(a, b)
}

// HasAbbrev reports whether Abbrev tells keys apart (false: it is always 0).
func (c *Comparer) HasAbbrev() bool { return c == &bytewise || c == &reverseBytewise }

// Abbrev maps the key's eight bytes after skip to an integer whose order agrees
// with the comparer's: for keys that share their first skip bytes, Abbrev(a) <
// Abbrev(b) implies a < b. Equal abbreviations say nothing.
func (c *Comparer) Abbrev(key []byte, skip int) uint64 {
	switch c {
	case &bytewise:
		return Prefix64(key, skip)
	case &reverseBytewise:
		return ^Prefix64(key, skip)
	}
	return 0
}

// Prefix64 is the big-endian integer of the eight bytes after skip, padded
// with zeros. skip may exceed len(key).
func Prefix64(key []byte, skip int) uint64 {
	n := len(key)
	switch {
	case n >= skip+8:
		return binary.BigEndian.Uint64(key[skip:])
	case n >= 8: // the last eight bytes have them
		return binary.BigEndian.Uint64(key[n-8:]) << (8 * (uint(skip) + 8 - uint(n)))
	}
	var v uint64
	for i := skip; i < len(key); i++ {
		v |= uint64(key[i]) << (56 - 8*(i-skip))
	}
	return v
}

// SharedPrefixLen is the length of the longest common prefix.
func SharedPrefixLen(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:])
		if x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// AppendSeparator appends a key in [a, b) that is short, for a < b.
func (c *Comparer) AppendSeparator(dst, a, b []byte) []byte {
	if c.Separator == nil {
		return append(dst, a...)
	}
	return c.Separator(dst, a, b)
}

// AppendSuccessor appends a key >= a that is short.
func (c *Comparer) AppendSuccessor(dst, a []byte) []byte {
	if c.Successor == nil {
		return append(dst, a...)
	}
	return c.Successor(dst, a)
}

func bytewiseSeparator(dst, a, b []byte) []byte {
	n := SharedPrefixLen(a, b)
	if n < len(a) && n < len(b) && a[n] < 0xff && a[n]+1 < b[n] {
		dst = append(dst, a[:n+1]...)
		dst[len(dst)-1]++
		return dst
	}
	return append(dst, a...)
}

func bytewiseSuccessor(dst, a []byte) []byte {
	for i, ch := range a {
		if ch != 0xff {
			dst = append(dst, a[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return append(dst, a...)
}
