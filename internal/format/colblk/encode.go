package colblk

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
)

// facts are what the layout of a block depends on, of its first n entries.
type facts struct {
	n                 int
	heap              bool
	order             order
	prefixLen         int // of what all keys share
	shortest, longest int // keys
	keys, values      int // bytes
	minSeq, maxSeq    base.SeqNum
	lastSeq, step     base.SeqNum
	uneven            bool // sequence numbers do not ascend by steps of one length
	minRaw, maxRaw    uint32
	minValue          int // bytes of a packed value
	maxValue          int
	kind              base.Kind  // of the first entry
	codec             base.Codec // of the first value that is packed; raw while there is none
	kinds, codecs     bool       // there are others
	repeated          bool       // a user key occurs twice
	first, last       uint64     // abbreviations after prefixLen
}

// extend adds the entries of w from the f.n-th up to n. It is called for many entries at
// a time: most are looked at once, when the block is complete or nearly so.
func (f *facts) extend(w *Writer, n int) {
	if f.n >= n {
		return
	}
	entries := w.entries[:n]
	if f.n == 0 {
		e := &entries[0]
		key, seq := int(e.keyEnd), e.trailer.Seq()
		*f = facts{
			n: 1, heap: f.heap, order: f.order, kind: e.trailer.Kind(), codec: e.codec, keys: key,
			values: int(e.valEnd), shortest: key, longest: key, minSeq: seq, maxSeq: seq,
			lastSeq: seq, minRaw: e.raw, maxRaw: e.raw, minValue: int(e.valEnd),
			maxValue: int(e.valEnd),
		}
	}
	f.addKeys(w, n)
	f.addSeqs(entries)
	values := f.values
	for i := f.n; i < n; i++ {
		e := &entries[i]
		value := int(e.valEnd) - values
		values = int(e.valEnd)
		f.minRaw, f.maxRaw = min(f.minRaw, e.raw), max(f.maxRaw, e.raw)
		f.minValue, f.maxValue = min(f.minValue, value), max(f.maxValue, value)
		f.kinds = f.kinds || e.trailer.Kind() != f.kind
		if e.codec != f.codec && e.codec != base.CodecRaw {
			f.codecs = f.codecs || f.codec != base.CodecRaw
			f.codec = e.codec
		}
	}
	f.n, f.values = n, values
}

// addSeqs adds the sequence numbers of the entries behind the first f.n.
func (f *facts) addSeqs(entries []entry) {
	lo, hi, last, step := f.minSeq, f.maxSeq, f.lastSeq, f.step
	for i := f.n; i < len(entries); i++ {
		seq := entries[i].trailer.Seq()
		lo, hi = min(lo, seq), max(hi, seq)
		before := step
		step = seq - last
		f.uneven = f.uneven || step > math.MaxUint8 || i > 1 && step != before
		last = seq
	}
	f.minSeq, f.maxSeq, f.lastSeq, f.step = lo, hi, last, step
}

// addKeys adds the keys of the entries from the f.n-th up to n. They ascend, so what all keys share
// is what the first and the last one share.
func (f *facts) addKeys(w *Writer, n int) {
	keys := w.keys.Bytes()
	from, before := f.keys, 0 // where key i begins, and the length of the one before
	if f.n == 1 {
		before = from
	} else {
		before = from - int(w.entries[f.n-2].keyEnd)
	}
	for i := f.n; i < n; i++ {
		end := int(w.entries[i].keyEnd)
		size := end - from
		f.shortest, f.longest = min(f.shortest, size), max(f.longest, size)
		switch {
		case f.repeated:
		case f.order == plain:
			f.repeated = w.o.Comparer.Cmp(keys[from-before:from], keys[from:end]) == 0
		case size == before &&
			(size < 8 ||
				load64(unsafe.Pointer(&keys[end-8])) == load64(unsafe.Pointer(&keys[from-8]))):
			f.repeated = bytes.Equal(keys[from-size:from], keys[from:end])
		}
		from, before = end, size
	}
	f.keys = from
	if f.order != plain {
		first, last := w.key(0), w.key(n-1)
		f.prefixLen = base.SharedPrefixLen(first, last)
		f.first, f.last = f.abbrev(first), f.abbrev(last)
	}
}

// abbrev is the eight bytes of the key after the prefix, as the comparer orders them.
func (f *facts) abbrev(key []byte) uint64 {
	return base.Prefix64(key, f.prefixLen) ^ flipOf(f.order)
}

// layout is what a block looks like.
type layout struct {
	header
	values int // bytes as they are stored
}

func (l *layout) size() uint64 {
	return l.columnsEnd() + max(uint64(l.tailsLen)+uint64(l.values), minRest)
}

// begin is the layout as far as it follows from the facts alone: all but tails, and the columns
// of ends.
func (f *facts) begin() (l layout) {
	l.count, l.order, l.prefixLen, l.values = f.n, f.order, f.prefixLen, f.values
	if f.heap {
		l.flags |= flagHeap
	}
	if !f.repeated {
		l.flags |= flagDistinct
	}
	if f.n == 0 {
		return l
	}
	if f.order != plain {
		l.abbrevLen = uint8(min(f.longest-f.prefixLen, 8))
		shift := 64 - 8*l.abbrevLen
		l.abbrevBase = f.first >> shift
		l.widths.set(colAbbrev, widthOf(f.last>>shift-l.abbrevBase))
		if f.shortest < f.prefixLen+int(l.abbrevLen) {
			l.widths.set(colLength, 1)
		}
	}
	kind := f.kind
	if f.kinds {
		l.widths.set(colKind, 1)
		kind = 0
	}
	l.trailerBase = uint64(base.MakeTrailer(f.minSeq, kind))
	if f.uneven {
		l.widths.set(colSeq, widthOf(uint64(f.maxSeq-f.minSeq)))
	} else {
		l.seqStep = uint8(f.step)
	}
	if f.codec != base.CodecRaw {
		l.codec, l.rawBase = f.codec, f.minRaw
		l.widths.set(colRaw, widthOf(uint64(f.maxRaw-f.minRaw)))
		if f.codecs {
			l.codec = base.CodecRaw
			l.widths.set(colCodec, 1)
		}
	}
	return l
}

// head is how many bytes of a key the prefix and the abbreviation stand for.
func (h *header) head() int { return h.prefixLen + int(h.abbrevLen) }

// bounds are bounds of the block's size that need no look at the entries.
func (f *facts) bounds() (lo, hi uint64) {
	l := f.begin()
	lo = l.columnsEnd() + uint64(l.values)
	hi = lo + minRest + tailsHdr
	head := l.head()
	lo += uint64(max(f.keys-f.n*head, 0))
	hi += uint64(f.keys - f.n*min(f.shortest, head))
	if (f.shortest != f.longest || f.longest > maxExact) && f.longest > head {
		hi += uint64(f.n) * endsWidth(f.keys)
	}
	if f.minValue != f.maxValue || f.maxValue > maxExact {
		hi += uint64(f.n) * endsWidth(f.values)
	}
	return lo, hi
}

// endsWidth is the most that an element of a column of ends of total bytes takes.
func endsWidth(total int) uint64 { return uint64(widthOf(uint64(total) << 1)) }

// layout computes the layout of a block of the first f.n entries.
func (w *Writer) layout(f *facts) layout {
	l := f.begin()
	if f.n == 0 {
		return l
	}
	head := l.head()
	if f.shortest >= head {
		l.tailsLen = f.keys - f.n*head
	} else if f.longest > head {
		from := uint32(0)
		for i := range w.entries[:f.n] {
			end := w.entries[i].keyEnd
			l.tailsLen += max(int(end-from)-head, 0)
			from = end
		}
	}
	tails := ends{}
	tails.begin(l.tailsLen, f.n)
	if l.tailsLen > 0 && !tails.exact(f.shortest, f.longest) {
		from := uint32(0)
		for i := range w.entries[:f.n] {
			end := w.entries[i].keyEnd
			tails.add(max(int(end-from)-head, 0))
			from = end
		}
	}
	l.tailStride = tails.stride
	l.widths.set(colTail, tails.width())
	values := ends{}
	values.begin(f.values, f.n)
	if !values.exact(f.minValue, f.maxValue) {
		for i := range w.entries[:f.n] {
			values.addTo(uint64(w.entries[i].valEnd))
		}
	}
	l.valueStride = values.stride
	l.widths.set(colValue, values.width())
	return l
}

// ends computes a column of ends.
type ends struct {
	stride   uint32
	sum      uint64 // end of the parts added so far
	estimate uint64 // sum predicted from the stride, with its fraction
	lo, hi   int64  // bounds of the elements so far
}

// begin begins a column for n parts of total bytes.
func (e *ends) begin(total, n int) {
	if s := uint64(total) << strideBits / uint64(n); s <= math.MaxUint32 {
		e.stride = uint32(s)
	}
}

// maxExact is the longest part whose length is a stride.
const maxExact = math.MaxUint32 >> strideBits

// exact reports whether parts of shortest to longest bytes are all just where the stride says.
func (e *ends) exact(shortest, longest int) bool {
	return shortest == longest && longest <= maxExact
}

// add returns the element of a part of n bytes.
func (e *ends) add(n int) int64 { return e.addTo(e.sum + uint64(n)) }

// addTo returns the element of a part that ends at end.
func (e *ends) addTo(end uint64) int64 {
	e.sum = end
	e.estimate += uint64(e.stride)
	d := int64(end) - int64(e.estimate>>strideBits)
	e.lo, e.hi = min(e.lo, d), max(e.hi, d)
	return d
}

func (e *ends) width() uint8 { return widthOfSigned(e.lo, e.hi) }

// encode writes the block to b, whose length is the layout's and which has block.Slack bytes behind
// it.
func (w *Writer) encode(b []byte, l *layout, values []byte) {
	n := l.put(b)
	if l.count > 0 {
		n += copy(b[n:], w.key(0)[:l.prefixLen])
	}
	c := columnWriter{p: unsafe.Pointer(unsafe.SliceData(b)), off: uintptr(n)}
	entries := w.entries[:l.count]
	w.encodeKeys(&c, l)
	if c.begin(l, colSeq) {
		for i := range entries {
			c.put((uint64(entries[i].trailer) - l.trailerBase) >> 8)
		}
	}
	if c.begin(l, colKind) {
		for i := range entries {
			c.put(uint64(entries[i].trailer.Kind()))
		}
	}
	if c.begin(l, colCodec) {
		for i := range entries {
			c.put(uint64(entries[i].codec))
		}
	}
	if c.begin(l, colRaw) {
		for i := range entries {
			c.put(uint64(entries[i].raw - l.rawBase))
		}
	}
	if c.begin(l, colValue) {
		e := ends{stride: l.valueStride}
		for i := range entries {
			c.put(uint64(e.addTo(uint64(entries[i].valEnd))))
		}
	}
	off := int(c.off)
	if l.tailsLen > 0 {
		head := l.head()
		for i := range entries {
			if k := w.key(i); len(k) > head {
				off += copy(b[off:], k[head:])
			}
		}
	}
	off += copy(b[off:], values)
	clear(b[off:])
}

// encodeKeys writes the columns of keys.
func (w *Writer) encodeKeys(c *columnWriter, l *layout) {
	keys, entries, from := w.keys.Bytes(), w.entries[:l.count], uint32(0)
	if c.begin(l, colAbbrev) {
		// The buffer has bytes behind the last key. Those of the next key are cut off.
		shift, flip, skip := 64-8*l.abbrevLen, flipOf(l.order), uint32(l.prefixLen)
		base, p := l.abbrevBase, unsafe.Pointer(unsafe.SliceData(keys))
		for i := range entries {
			end := entries[i].keyEnd
			x := binary.BigEndian.Uint64((*[8]byte)(unsafe.Add(p, from+skip))[:])
			if n := end - from - skip; n < 8 {
				x &^= math.MaxUint64 >> (8 * n)
			}
			c.put((x^flip)>>shift - base)
			from = end
		}
	}
	if c.begin(l, colLength) {
		from = 0
		for i := range entries {
			end := entries[i].keyEnd
			c.put(uint64(min(int(end-from)-l.prefixLen, int(l.abbrevLen))))
			from = end
		}
	}
	if c.begin(l, colTail) {
		e, head := ends{stride: l.tailStride}, l.head()
		from = 0
		for i := range entries {
			end := entries[i].keyEnd
			c.put(uint64(e.add(max(int(end-from)-head, 0))))
			from = end
		}
	}
}

// flipOf is what abbreviations are XORed with.
func flipOf(o order) uint64 {
	if o == reverse {
		return math.MaxUint64
	}
	return 0
}

// columnWriter writes one column after the other. Each element is written as eight bytes; the next
// one overwrites the surplus bytes.
type columnWriter struct {
	p     unsafe.Pointer // the block
	off   uintptr
	width uintptr
}

// begin begins a column and reports whether it has a width.
func (c *columnWriter) begin(l *layout, col int) bool {
	c.width = uintptr(l.widths.of(col))
	return c.width > 0
}

func (c *columnWriter) put(v uint64) {
	store64(unsafe.Add(c.p, c.off), v)
	c.off += c.width
}
