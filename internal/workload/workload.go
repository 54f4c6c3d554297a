// Package workload generates the keys and values of benchmarks and defines the
// benchmarks themselves as data. It knows no engine: every engine that is
// compared gets the same keys and values in the same order.
//
// The generators (Rand, Keys, Values) belong to one goroutine each and do not
// allocate once made. The definitions are constant.
package workload

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Rand is the Lehmer generator x' = 16807 x mod (2^31 - 1), which LevelDB's
// benchmark draws its keys from: with the same seed the same keys come, so
// "found of asked" can be compared with LevelDB's to the digit.
type Rand struct{ x uint32 }

const lehmerModulus = 1<<31 - 1

// NewRand returns a generator for the seed's low 31 bits.
func NewRand(seed uint32) Rand {
	seed &= lehmerModulus
	if seed == 0 || seed == lehmerModulus {
		seed = 1 // the two fixed points of the recurrence
	}
	return Rand{seed}
}

// Next returns a number in [1, 2^31 - 2].
func (r *Rand) Next() uint32 {
	p := uint64(r.x) * 16807
	// 2^31 = 1 modulo 2^31-1, so the high part is added to the low one.
	x := uint32(p>>31) + uint32(p&lehmerModulus)
	if x > lehmerModulus {
		x -= lehmerModulus
	}
	r.x = x
	return x
}

// Uniform returns a number in [0, n). Below 2^31 it is Next() mod n, as in
// LevelDB; larger ranges take two draws.
func (r *Rand) Uniform(n uint64) uint64 {
	if n < lehmerModulus {
		return uint64(r.Next() % uint32(n))
	}
	hi := uint64(r.Next())<<33 | uint64(r.Next())<<2
	q, _ := bits.Mul64(hi, n)
	return q
}

// KeyStyle says how a number becomes a key.
type KeyStyle uint8

const (
	// Padded is LevelDB's "%016d".
	Padded KeyStyle = iota
	// Named is "key%d".
	Named
)

var keyStyleNames = []string{Padded: "%016d", Named: "key%d"}

func (s KeyStyle) String() string { return keyStyleNames[s] }

// ParseKeyStyle is the inverse of String.
func ParseKeyStyle(s string) (KeyStyle, error) {
	for i, name := range keyStyleNames {
		if s == name {
			return KeyStyle(i), nil
		}
	}
	return 0, fmt.Errorf("key format %q: want %%016d or key%%d", s)
}

// KeyFormat describes the keys of a run.
type KeyFormat struct {
	Style KeyStyle
	// Prefix is the number of 'a' bytes before every key.
	Prefix int
	// Stride 2 writes even numbers only, so that the odd ones between them are
	// keys that are missing inside the range of those present. 0 is 1.
	Stride int
}

// MaxPrefix bounds KeyFormat.Prefix.
const MaxPrefix = 4096

// Len is the length of the key for number 0.
func (f KeyFormat) Len() int {
	k := NewKeys(f)
	return len(k.Present(0))
}

// Keys builds keys in its own buffer: a returned key is valid until the next call.
type Keys struct {
	buf    []byte
	style  KeyStyle
	prefix int
	stride uint64
}

// NewKeys returns a generator for the format.
func NewKeys(f KeyFormat) *Keys {
	k := &Keys{
		buf:    make([]byte, f.Prefix+len("key")+20),
		style:  f.Style,
		prefix: f.Prefix,
		stride: uint64(max(f.Stride, 1)),
	}
	for i := range f.Prefix {
		k.buf[i] = 'a'
	}
	return k
}

// Present returns the key with number n of those that fills write.
func (k *Keys) Present(n uint64) []byte { return k.number(n * k.stride) }

// Missing returns a key that no fill writes, from inside the range of those it
// writes: the odd number after n's, or with stride 1 n's key and a dot.
func (k *Keys) Missing(n uint64) []byte {
	if k.stride > 1 {
		return k.number(n*k.stride + 1)
	}
	key := k.number(n)
	return append(key, '.') // the buffer has room for 20 digits
}

func (k *Keys) number(n uint64) []byte {
	if k.style == Padded {
		if n < 1e16 {
			b := k.buf[:k.prefix+16]
			hi := n / 1e8
			putDigits8(b[k.prefix:], uint32(hi))
			putDigits8(b[k.prefix+8:], uint32(n-hi*1e8))
			return b
		}
		return appendDecimal(k.buf[:k.prefix], n)
	}
	b := k.buf[:k.prefix+3]
	copy(b[k.prefix:], "key")
	return appendDecimal(b, n)
}

// Names builds a word followed by a number, in its own buffer.
type Names struct {
	buf  []byte
	word int
}

// NewNames returns a generator of word%d.
func NewNames(word string) *Names {
	buf := make([]byte, len(word)+20)
	return &Names{buf, copy(buf, word)}
}

// Name returns the name for n, valid until the next call.
func (m *Names) Name(n uint64) []byte { return appendDecimal(m.buf[:m.word], n) }

// putDigits8 writes n < 10^8 as eight digits. The number is split by
// multiplications within one word: into halves of four digits, these into
// pairs, the pairs into digits.
func putDigits8(b []byte, n uint32) {
	hi := uint64(n / 1e4)
	x := hi | (uint64(n)-hi*1e4)<<32
	q := (x * 10486 >> 20) & 0x0000007f_0000007f // each half / 100
	x = q | (x-q*100)<<16
	q = (x * 103 >> 10) & 0x000f000f_000f000f // each pair / 10
	x = q | (x-q*10)<<8
	binary.LittleEndian.PutUint64(b, x|0x30303030_30303030)
}

func appendDecimal(b []byte, n uint64) []byte {
	var tmp [24]byte
	hi, lo := n/1e8, uint32(n%1e8)
	if hi >= 1e8 {
		b = appendDecimal(b, hi)
		hi = 0
		putDigits8(tmp[16:], lo)
		return append(b, tmp[16:]...)
	}
	putDigits8(tmp[8:], uint32(hi))
	putDigits8(tmp[16:], lo)
	i := 23
	if w := binary.BigEndian.Uint64(tmp[8:]) ^ 0x30303030_30303030; w != 0 {
		i = 8 + bits.LeadingZeros64(w)/8
	} else if w := binary.BigEndian.Uint64(tmp[16:]) ^ 0x30303030_30303030; w != 0 {
		i = 16 + bits.LeadingZeros64(w)/8
	}
	return append(b, tmp[i:]...)
}
