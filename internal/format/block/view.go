package block

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// A View lies in one piece of memory that is aligned to eight bytes:
//
//	header        viewHeader bytes
//	fingerprints  u8[n], padded to 8      one byte of each key's hash
//	abbreviations u64[n]                  eight bytes of each key after a common prefix
//	trailers      u64[n]
//	key offsets   u32[n+1]                into data; the last is data's length
//	value offsets u32[n]
//	data          key 0, value 0, key 1, value 1, ...
//
// The first two columns are there only when asked for and when they are valid
// for the comparer. Integers are in the host's order: a View is never written
// to a file.
const viewHeader = 32

// Offsets of the header's fields.
const (
	hdrCount  = 0  // u32
	hdrFlags  = 4  // u32
	hdrPrefix = 8  // u32: length of the prefix that abbreviations leave out
	hdrSize   = 12 // u32: of header, columns and data
	hdrMaxSeq = 16 // u64
)

// Columns names the optional columns of a View; in the header it also carries
// viewAllLiveSets and viewExact.
type Columns uint32

const (
	// Fingerprints make Get skip keys by one byte of their hash.
	Fingerprints Columns = 1 << iota
	// Abbreviations make searches compare integers instead of keys.
	Abbreviations

	viewAllLiveSets // see base.Chunk
	viewExact       // see View.isExact

	// PointLookup is the columns for random reads.
	PointLookup = Fingerprints | Abbreviations
)

// valid removes the columns that do not work with cmp.
func (c Columns) valid(cmp *base.Comparer) Columns {
	if !cmp.EqualIsBytewise {
		c &^= Fingerprints
	}
	if !cmp.HasAbbrev() {
		c &^= Abbreviations
	}
	return c
}

// View is a decoded block: sorted entries in columns.
type View struct {
	p        unsafe.Pointer // the header
	n        int
	flags    Columns
	abbrevs  uintptr // offsets of columns from p
	trailers uintptr
	keyOffs  uintptr
	valOffs  uintptr
	data     []byte
}

// layout computes the column offsets of a view of n entries and the offset of
// its data.
func (v *View) layout(n int, flags Columns) (dataOff uintptr) {
	v.n, v.flags = n, flags
	off := uintptr(viewHeader)
	if flags&Fingerprints != 0 {
		off += uintptr(n+7) &^ 7
	}
	v.abbrevs = off
	if flags&Abbreviations != 0 {
		off += uintptr(n) * 8
	}
	v.trailers = off
	off += uintptr(n) * 8
	v.keyOffs = off
	off += uintptr(n)*4 + 4
	v.valOffs = off
	return off + uintptr(n)*4
}

// OpenView returns the view that was built at the start of b.
func OpenView(b []byte) View {
	p := unsafe.Pointer(unsafe.SliceData(b))
	invariants.Check(uintptr(p)&7 == 0, "block: view at unaligned address")
	var v View
	v.p = p
	n := int(*(*uint32)(p))
	flags := Columns(*(*uint32)(unsafe.Add(p, hdrFlags)))
	v.data = b[v.layout(n, flags):*(*uint32)(unsafe.Add(p, hdrSize))]
	return v
}

// Len is the number of entries.
func (v *View) Len() int { return v.n }

// MaxSeq is the largest sequence number.
func (v *View) MaxSeq() base.SeqNum {
	return base.SeqNum(*(*uint64)(unsafe.Add(v.p, hdrMaxSeq)))
}

func (v *View) prefixLen() int { return int(*(*uint32)(unsafe.Add(v.p, hdrPrefix))) }

func (v *View) keyOff(i int) uint32 {
	return *(*uint32)(unsafe.Add(v.p, v.keyOffs+uintptr(i)*4))
}

func (v *View) valOff(i int) uint32 {
	return *(*uint32)(unsafe.Add(v.p, v.valOffs+uintptr(i)*4))
}

func (v *View) check(i int) {
	invariants.Check(uint(i) < uint(v.n), "block: entry %d of %d", i, v.n)
}

// Key returns user key i.
func (v *View) Key(i int) []byte {
	v.check(i)
	end := v.valOff(i)
	return v.data[v.keyOff(i):end:end]
}

// Value returns value i.
func (v *View) Value(i int) []byte {
	v.check(i)
	end := v.keyOff(i + 1)
	return v.data[v.valOff(i):end:end]
}

// Trailer returns trailer i.
func (v *View) Trailer(i int) base.Trailer {
	v.check(i)
	return *(*base.Trailer)(unsafe.Add(v.p, v.trailers+uintptr(i)*8))
}

// Chunk makes e the whole view, without copying.
func (v *View) Chunk(e *base.Chunk) {
	keyOff := unsafe.Slice((*uint32)(unsafe.Add(v.p, v.keyOffs)), v.n+1)
	e.Data = v.data
	e.KeyOff = keyOff[:v.n:v.n]
	e.ValEnd = keyOff[1:]
	e.ValOff = unsafe.Slice((*uint32)(unsafe.Add(v.p, v.valOffs)), v.n)
	e.Trailers = unsafe.Slice((*base.Trailer)(unsafe.Add(v.p, v.trailers)), v.n)
	e.Codecs = nil
	e.AllLiveSets = v.flags&viewAllLiveSets != 0
	e.MaxSeq = v.MaxSeq()
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// Get returns the index of the entry that l, of base.MakeLookup, asks for, -1
// when there is none.
func (v *View) Get(cmp *base.Comparer, l base.Lookup) int {
	if v.flags&Fingerprints == 0 {
		return v.search(cmp, l)
	}
	want := uint64(Fingerprint(l.Hash)) * lowBits
	for w := 0; w < v.n; w += 8 {
		x := binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(v.p, viewHeader+uintptr(w)))[:]) ^
			want
		// A zero byte of x is a candidate. The borrow may mark bytes above a true
		// one as well; comparing keys rules them out.
		for m := (x - lowBits) &^ x & highBits; m != 0; m &= m - 1 {
			i := w + bits.TrailingZeros64(m)/8
			if i >= v.n || !bytes.Equal(v.Key(i), l.Key()) {
				continue
			}
			// The versions of a key are sorted newest first, so i is the newest.
			if v.Trailer(i).Seq() <= l.Seq {
				return i
			}
			return v.search(cmp, l)
		}
	}
	return -1
}

// PrefetchEntry starts loading into the processor's cache the entry that Get will probably find.
// It looks at the columns only, which tell most keys apart.
func (v *View) PrefetchEntry(cmp *base.Comparer, l base.Lookup) {
	at := -1
	if v.flags&Fingerprints != 0 {
		want := uint64(Fingerprint(l.Hash)) * lowBits
		for w := 0; w < v.n && at < 0; w += 8 {
			x := binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(v.p, viewHeader+uintptr(w)))[:]) ^
				want
			if m := (x - lowBits) &^ x & highBits; m != 0 {
				at = w + bits.TrailingZeros64(m)/8
			}
		}
	} else if v.flags&Abbreviations != 0 && v.n > 0 {
		if lo, hi := v.narrow(cmp, l.Key()); lo < hi {
			at = lo
		}
	}
	v.Prefetch(at)
}

// Prefetch starts loading entry i, if there is such an entry, into the processor's cache.
func (v *View) Prefetch(i int) {
	if uint(i) < uint(v.n) {
		from := v.keyOff(i)
		offheap.Prefetch(unsafe.Add(unsafe.Pointer(unsafe.SliceData(v.data)), from),
			int(min(v.keyOff(i+1)-from, maxPrefetch)))
	}
}

// maxPrefetch is how many bytes of an entry are loaded ahead: the processor follows long copies
// itself.
const maxPrefetch = 512

func (v *View) search(cmp *base.Comparer, l base.Lookup) int {
	key := l.Key()
	if v.flags&Abbreviations != 0 && v.n > 0 {
		// Usually one key has the abbreviation.
		if lo, hi := v.narrow(cmp, key); hi-lo <= 1 {
			if lo < hi && v.Trailer(lo).Seq() <= l.Seq &&
				(v.isExact(key) || bytes.Equal(v.Key(lo), key)) {
				return lo
			}
			return -1
		}
	}
	i := v.SeekGE(cmp, key, l.Trailer())
	if i < v.n && cmp.Cmp(v.Key(i), key) == 0 {
		return i
	}
	return -1
}

// SeekGE returns the index of the first entry at or after (key, t) in internal
// order, Len() when there is none.
func (v *View) SeekGE(cmp *base.Comparer, key []byte, t base.Trailer) int {
	lo, hi := 0, v.n
	if v.flags&Abbreviations != 0 && hi > 0 {
		lo, hi = v.narrow(cmp, key)
	}
	return v.seekIn(cmp, key, t, lo, hi)
}

// seekIn is SeekGE among the entries [lo, hi), which narrow leaves.
func (v *View) seekIn(cmp *base.Comparer, key []byte, t base.Trailer, lo, hi int) int {
	exact := v.isExact(key)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if exact && v.Trailer(m) > t || !exact && cmp.CompareInternal(v.Key(m), v.Trailer(m), key,
			t) < 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// isExact reports whether the keys that narrow leaves are key: all keys have its length, and the
// abbreviations tell them apart. So they need not be read.
func (v *View) isExact(key []byte) bool {
	return v.flags&viewExact != 0 && uint32(len(key)) == v.valOff(0)
}

// narrow finds by abbreviations the range [lo, hi) in which only full compares
// can tell where key belongs; all entries before lo are smaller.
func (v *View) narrow(cmp *base.Comparer, key []byte) (lo, hi int) {
	p := prefix.Prefix(v.data[:v.prefixLen()])
	switch {
	case p.In(key):
		return prefix.Range(v.abbrevColumn(), p.Abbrev(cmp, key))
	case p.Before(cmp, key):
		return 0, 0
	case v.flags&viewExact != 0:
		return v.n, v.n
	}
	return v.n - 1, v.n // the last key need not have the prefix
}

func (v *View) abbrevColumn() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Add(v.p, v.abbrevs)), v.n)
}

// SeekLT returns the index of the last entry before (key, t), -1 when there is
// none.
func (v *View) SeekLT(cmp *base.Comparer, key []byte, t base.Trailer) int {
	return v.SeekGE(cmp, key, t) - 1
}
