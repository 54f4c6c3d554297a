package colblk

import (
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// Shape is what a block takes in memory; Measure computes it.
type Shape struct {
	n            int
	keys, values uint64 // bytes, unpacked
	exact        bool
}

// ViewSize is the memory that BuildView needs.
func (s Shape) ViewSize(cols block.Columns) int {
	return int(block.ViewSize(s.n, s.keys+s.values, s.columns(cols)))
}

// columns leaves out what does not pay: where abbreviations tell all keys apart, a search that
// skips keys by their fingerprints is no faster.
func (s Shape) columns(cols block.Columns) block.Columns {
	if s.exact && cols&block.Abbreviations != 0 {
		cols &^= block.Fingerprints
	}
	return cols
}

// Measure computes the size of the block's View. It is an error if that takes more than limit
// bytes.
func (v *Block) Measure(limit int64) (Shape, error) {
	s := Shape{n: v.n, keys: v.keysLen(), values: v.valuesLen(), exact: v.order() != plain &&
		v.exact()}
	limit = max(min(limit, math.MaxUint32, math.MaxInt), 0)
	size := block.ViewSize(v.n, s.keys+s.values, block.PointLookup)
	if max(s.keys, s.values, size) > uint64(limit) { // sums of more wrap
		return Shape{}, corrupt("takes %d bytes in memory, allowed are %d", size, limit)
	}
	return s, nil
}

// keysLen is the length of all keys.
func (v *Block) keysLen() uint64 {
	n := uint64(v.n) * uint64(v.prefixLen())
	if c := v.col(colLength); c.width > 0 {
		n += c.sum(v.n)
	} else {
		n += uint64(v.n) * uint64(v.abbrevLen())
	}
	return n + uint64(v.tails)
}

// sum is the sum of the first n elements.
func (c column) sum(n int) (s uint64) {
	if c.width == 0 {
		return 0
	}
	for i := range n {
		s += c.at(i)
	}
	return s
}

// valuesLen is the length of all values when they are unpacked, as the block says.
func (v *Block) valuesLen() uint64 {
	if v.heap() || v.raw() {
		return v.packedLen()
	}
	return uint64(v.n)*uint64(v.field32(hdrRawBase)) + v.col(colRaw).sum(v.n)
}

// packedLen is where the last value ends.
func (v *Block) packedLen() uint64 {
	if v.n == 0 {
		return 0
	}
	return v.col(colValue).end(v.n-1, v.field32(hdrValueStride))
}

// raw reports whether no value is packed.
func (v *Block) raw() bool { return v.codec() == base.CodecRaw && v.widths.of(colCodec) == 0 }

// values reads the values of a block one by one.
type values struct {
	src      []byte // packed values, or the heap
	ends     column
	stride   uint32
	raw      column
	rawBase  uint64
	codecs   column
	codec    base.Codec
	plain    bool // none is packed, or the heap is unpacked
	readable int  // bytes from the start of src
}

// values begins to read the values. A heap is unpacked in buf, if it has no more than limit bytes.
func (v *Block) values(dict *Dict, limit int64, buf *block.Buffer) (r values, err error) {
	off := v.valuesOff()
	r = values{
		src: v.bytes(off, v.size), ends: v.col(colValue), stride: v.field32(hdrValueStride),
		raw: v.col(colRaw), rawBase: uint64(v.field32(hdrRawBase)), codecs: v.col(colCodec),
		codec: v.codec(), plain: v.heap() || v.raw(),
	}
	if v.packedHeap() {
		r.src, err = v.unpackHeap(r.src, dict, limit, buf)
	}
	r.readable = len(r.src)
	return r, err
}

// unpackHeap unpacks the heap of values.
func (v *Block) unpackHeap(p []byte, dict *Dict, limit int64, buf *block.Buffer) ([]byte, error) {
	n, body, err := splitPacked(p, v.codec())
	switch {
	case err != nil:
		return nil, err
	case n > uint64(max(limit, 0)):
		return nil, tooLong(n, limit)
	case n != v.packedLen():
		return nil, corrupt("a heap of %d bytes for values of %d", n, v.packedLen())
	}
	dst, err := buf.Resize(int(n))
	if err != nil {
		return nil, err
	}
	return dst, unpackInto(dst, body, v.codec(), dict, len(body))
}

// unpackedLen is the length of value i, which has p bytes as it is packed. It is below 1<<33.
func (r *values) unpackedLen(i, p int) uint64 {
	if r.plain {
		return uint64(p)
	}
	return r.rawBase + r.raw.at(i)
}

// codecOf is the codec of value i, which has p bytes packed and n unpacked.
func (r *values) codecOf(i, p int, n uint64) base.Codec {
	switch {
	case uint64(p) == n:
		return base.CodecRaw
	case r.codecs.width == 0:
		return r.codec
	}
	return base.Codec(r.codecs.at(i))
}

// AppendValue appends value i, unpacked, to dst. Nothing of more than limit bytes is unpacked, a
// heap included. dict is the table's dictionary, nil where it has none. A heap is unpacked in
// scratch.
func (v *Block) AppendValue(dst []byte, i int, dict *Dict, limit int64,
	scratch *block.Buffer) ([]byte, error) {
	from, to := v.col(colValue).part(i, v.field32(hdrValueStride))
	switch {
	case v.packedHeap():
		r, err := v.values(dict, limit, scratch)
		if err != nil {
			return dst, err
		}
		return append(dst, r.src[from:to]...), nil
	case v.heap() || v.raw():
		off := v.valuesOff()
		return append(dst, v.bytes(off+uintptr(from), off+uintptr(to))...), nil
	}
	n := uint64(v.field32(hdrRawBase)) + v.col(colRaw).at(i)
	if n > uint64(max(limit, 0)) {
		return dst, tooLong(n, limit)
	}
	off := v.valuesOff() + uintptr(from)
	p, codec := v.bytes(off, off+uintptr(to-from)), v.codec()
	if n == uint64(len(p)) {
		codec = base.CodecRaw
	} else if c := v.col(colCodec); c.width > 0 {
		codec = base.Codec(c.at(i))
	}
	return appendUnpacked(dst, p, codec, dict, int(n), int(v.size-off))
}

// expansion is the contents of a block in the columns of a View or Chunk.
type expansion struct {
	keyOff []uint32 // one more than entries
	valOff []uint32
	codecs []base.Codec // nil: values are unpacked
	data   []byte       // block.Slack bytes behind what it will hold are writable
	packed bool         // a codec is not raw
}

// expand fills the expansion's offsets and data and returns the length of the data, which is
// at most room.
//
// Every block that enters the cache, and every one that a compaction reads, passes through this
// loop. It is fast for blocks as they usually are, and falls back for all others:
//
//  1. What is the same for all entries is decided before the loop: whether keys have one length and
//     no tails (keys.simple), whether packed values stay as they are (keep), and whether they are
//     short ones that are unpacked (short).
//  2. A simple key is two stores of fixed length: 16 bytes for the prefix, then 8 for the
//     abbreviation. They write beyond the key; the value, or the next key, overwrites that, and
//     behind the last entry lies block.Slack.
//  3. A value of up to 8*wideCopy bytes that needs no unpacking is copied 16 bytes at a time. These
//     copies read beyond the value, so it must end wideCopy bytes before the source does (fast).
//  4. A short value is unpacked to its place, whose length the column of lengths gives.
//  5. value does the rest: long values, those at the end of the source, other codecs.
//
// Open has checked that keys and packed values lie in the block, and room is the sum of all lengths
// that Measure or Chunk took from the same columns. So only what is unpacked is compared with room:
// its length is what a column says, not what the block has.
func (v *Block) expand(x *expansion, r *values, dict *Dict, room uint64) (int, error) {
	out, src := unsafe.Pointer(unsafe.SliceData(x.data)), unsafe.Pointer(unsafe.SliceData(r.src))
	keys := v.newKeyWriter(x.data)
	// Most values are copied as they are, or are short ones to unpack.
	keep := x.codecs != nil && !r.codec.NeedsDict() && r.codecs.width == 0
	short := r.codecs.width == 0 && (x.codecs == nil && r.codec == base.CodecShort ||
		r.codec == base.CodecShortDict && dict != nil)
	var content []byte
	if r.codec == base.CodecShortDict {
		content = dict.shortContent()
	}
	pos, from, fast := 0, 0, len(r.src)-wideCopy
	for i := range v.n {
		x.keyOff[i] = uint32(pos)
		if keys.simple {
			*(*[wideCopy]byte)(unsafe.Add(out, pos)) = *(*[wideCopy]byte)(keys.prefix)
			storeBig64(unsafe.Add(out, pos+keys.prefixLen), keys.abbrev(i))
			pos += keys.prefixLen + keys.abbrevLen
		} else {
			pos += keys.write(unsafe.Add(out, pos), i, pos)
		}
		x.valOff[i] = uint32(pos)
		to := int(r.ends.end(i, r.stride))
		p, n := to-from, r.unpackedLen(i, to-from)
		switch {
		case to <= fast && p <= 8*wideCopy && (keep || uint64(p) == n):
			if x.codecs != nil {
				x.codecs[i] = base.CodecRaw
				if uint64(p) != n {
					x.codecs[i], x.packed = r.codec, true
					if r.codec == base.CodecShort {
						if n < 0x80 {
							*(*byte)(unsafe.Add(out, pos)) = byte(n)
							pos++
						} else {
							pos += putLen(x.data[pos:], n)
						}
					}
				}
			}
			copyWide(unsafe.Add(out, pos), unsafe.Add(src, from), p)
			pos += p
		case short && uint64(p) != n && n <= room-uint64(pos):
			if !unpackShort(x.data[pos:pos+int(n)], r.src[from:to], content, len(r.src)-from) {
				return 0, errShort
			}
			if x.codecs != nil {
				x.codecs[i] = base.CodecRaw
			}
			pos += int(n)
		default:
			n, err := x.value(pos, i, r, from, to, dict, room)
			if err != nil {
				return 0, err
			}
			pos += n
		}
		from = to
	}
	x.keyOff[v.n] = uint32(pos)
	return pos, nil
}

// keyWriter writes the keys of a block one after the other.
type keyWriter struct {
	data       []byte
	prefix     unsafe.Pointer
	prefixLen  int
	wide       bool // the prefix may be copied by copyWide
	simple     bool // and has at most wideCopy bytes; all keys have one length and no tails
	abbrevLen  int
	abbrevs    column
	first      uint64
	shift      uint
	flip       uint64
	lengths    column
	tails      column
	tailStride uint32
	tailBytes  []byte
	tailFrom   uint64
}

func (v *Block) newKeyWriter(data []byte) keyWriter {
	k := v.abbrevLen()
	w := keyWriter{
		data: data, prefix: v.prefix, prefixLen: v.prefixLen(), abbrevLen: k,
		abbrevs: v.col(colAbbrev), first: v.abbrevBase(), shift: 64 - 8*uint(k),
		flip: flipOf(v.order()), lengths: v.col(colLength),
	}
	w.wide = w.prefixLen <= 4*wideCopy && uintptr(v.cols)-uintptr(v.p)+wideCopy <= v.size
	w.simple = w.wide && w.prefixLen <= wideCopy && v.exact()
	if v.tails > 0 {
		off := v.tailsOff()
		w.tails, w.tailStride, w.tailBytes = v.col(colTail), v.tailStride(), v.bytes(off,
			off+uintptr(v.tails))
	}
	return w
}

// abbrev is the eight bytes that abbreviation i stands for.
func (w *keyWriter) abbrev(i int) uint64 { return (w.first+w.abbrevs.at(i))<<w.shift ^ w.flip }

// write writes key i to data[pos:], which is dst, and returns its length.
func (w *keyWriter) write(dst unsafe.Pointer, i, pos int) int {
	n := w.prefixLen
	if w.wide {
		copyWide(dst, w.prefix, n)
	} else {
		copy(w.data[pos:], unsafe.Slice((*byte)(w.prefix), n))
	}
	storeBig64(unsafe.Add(dst, n), w.abbrev(i))
	if w.lengths.width == 0 {
		n += w.abbrevLen
	} else {
		n += int(w.lengths.at(i))
	}
	if w.tailBytes != nil {
		to := w.tails.end(i, w.tailStride)
		n += copy(w.data[pos+n:], w.tailBytes[w.tailFrom:to])
		w.tailFrom = to
	}
	return n
}

// value writes value i, which lies in src from and to, to data[pos:] and returns its length.
func (x *expansion) value(pos, i int, r *values, from, to int, dict *Dict,
	room uint64) (int, error) {
	p, readable := r.src[from:to], len(r.src)-from
	n := r.unpackedLen(i, len(p))
	codec := r.codecOf(i, len(p), n)
	if x.codecs != nil {
		x.codecs[i] = base.CodecRaw
		if codec != base.CodecRaw && !codec.NeedsDict() {
			x.codecs[i], x.packed = codec, true
			w := 0
			if codec == base.CodecShort {
				w = putLen(x.data[pos:], n)
			}
			return w + copy(x.data[pos+w:], p), nil
		}
	}
	if n > room-uint64(pos) {
		return 0, corrupt("contents of more than %d bytes", room)
	}
	return int(n), unpackInto(x.data[pos:pos+int(n)], p, codec, dict, readable)
}

// trailersTo writes the trailers to dst and reports whether all are sets, and the largest sequence
// number.
func (v *Block) trailersTo(dst []base.Trailer) (sets bool, maxSeq base.SeqNum) {
	first, seqs, kinds := v.trailer, v.col(colSeq), v.col(colKind)
	sets = len(dst) == 0 || kinds.width > 0 || base.Trailer(first).Kind() == base.KindSet
	top, step := base.Trailer(0), v.seqStep()<<8
	if kinds.width == 0 {
		for i := range dst {
			t := base.Trailer(first + seqs.at(i)<<8)
			first += step
			dst[i] = t
			top = max(top, t)
		}
		return sets, top.Seq()
	}
	for i := range dst {
		t := base.Trailer(first + seqs.at(i)<<8 + kinds.at(i))
		first += step
		dst[i] = t
		top = max(top, t)
		sets = sets && t.Kind() == base.KindSet
	}
	return sets, top.Seq()
}

// BuildView builds the View of the block in dst, which has the size that ViewSize(cols)
// says and begins on a multiple of eight; s comes from Measure. A heap is unpacked in scratch.
func (v *Block) BuildView(dst []byte, s Shape, cmp *base.Comparer, cols block.Columns, dict *Dict,
	scratch *block.Buffer) (block.View, error) {
	c := block.NewViewColumns(dst, v.n, cmp, s.columns(cols))
	r, err := v.values(dict, int64(s.values), scratch)
	if err != nil {
		return block.View{}, err
	}
	x := expansion{keyOff: c.KeyOff, valOff: c.ValOff, data: c.Data}
	n, err := v.expand(&x, &r, dict, s.keys+s.values)
	if err != nil {
		return block.View{}, err
	}
	switch {
	case c.Abbrevs == nil:
	case v.order() == plain: // see ofNamesake
		for i := range c.Abbrevs {
			c.Abbrevs[i] = cmp.Abbrev(c.Data[c.KeyOff[i]:c.ValOff[i]], 0)
		}
	default:
		v.abbrevsTo(c.Abbrevs)
	}
	for i := range c.Fingerprints {
		c.Fingerprints[i] = block.Fingerprint(base.Hash(c.Data[c.KeyOff[i]:c.ValOff[i]]))
	}
	sets, maxSeq := v.trailersTo(c.Trailers)
	return c.Finish(v.prefixLen(), n, sets && v.flags&flagDistinct != 0, s.exact, maxSeq), nil
}

// abbrevsTo writes the abbreviations, in eight bytes as the comparer makes them, to dst.
func (v *Block) abbrevsTo(dst []uint64) {
	c, first, shift := v.col(colAbbrev), v.abbrevBase(), 64-8*uint(v.abbrevLen())
	padding := uint64(0)
	if v.order() == reverse {
		padding = 1<<shift - 1
	}
	for i := range dst {
		dst[i] = (first+c.at(i))<<shift | padding
	}
}

// chunkPerEntry is what the columns of a chunk take for an entry.
const chunkPerEntry = 8 + 4 + 4 + 1

// Chunk makes e the whole block, for compactions: keys and values are copied to buf,
// values stay packed by their codecs. Those that are packed as a heap or with the table's
// dictionary are unpacked. It is an error if that takes more than limit bytes.
func (v *Block) Chunk(e *base.Chunk, dict *Dict, limit int64, buf, scratch *block.Buffer) error {
	limit = max(min(limit, math.MaxUint32, math.MaxInt), 0)
	n := v.n
	// A value has the length packed or unpacked; one of CodecShort gets its length in front.
	keys, values := v.keysLen(), uint64(0)
	data := keys + v.packedLen()
	if !v.raw() && !v.heap() {
		data += uint64(n) * maxLenBytes
		if v.codec().NeedsDict() || v.widths.of(colCodec) > 0 {
			values = v.valuesLen()
		}
	}
	data += values
	size := data + uint64(n)*chunkPerEntry + 4
	if max(keys, values, size) > uint64(limit) {
		return corrupt("takes %d bytes in memory, allowed are %d", size, limit)
	}
	r, err := v.values(dict, limit, scratch)
	if err != nil {
		return err
	}
	b, err := buf.Resize(int(size))
	if err != nil {
		return err
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	e.Trailers = unsafe.Slice((*base.Trailer)(p), n)
	keyOff := unsafe.Slice((*uint32)(unsafe.Add(p, 8*n)), n+1)
	e.ValOff = unsafe.Slice((*uint32)(unsafe.Add(p, 12*n+4)), n)
	e.Codecs = unsafe.Slice((*base.Codec)(unsafe.Add(p, 16*n+4)), n)
	e.KeyOff, e.ValEnd = keyOff[:n:n], keyOff[1:]
	x := expansion{keyOff: keyOff, valOff: e.ValOff, codecs: e.Codecs, data: b[chunkPerEntry*n+4:]}
	if r.plain {
		x.codecs = nil
	}
	end, err := v.expand(&x, &r, dict, data)
	if err != nil {
		return err
	}
	e.Data = x.data[:end:end]
	if !x.packed {
		e.Codecs = nil
	}
	sets, maxSeq := v.trailersTo(e.Trailers)
	e.AllLiveSets, e.MaxSeq = sets && v.flags&flagDistinct != 0, maxSeq
	return nil
}
