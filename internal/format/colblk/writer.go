package colblk

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// Options of a Writer.
type Options struct {
	Comparer *base.Comparer
	Packing  Packing
	// Codec is CodecSnappy or CodecZstd, for all but PackNone. Short values that are packed by
	// themselves get CodecShort instead.
	Codec base.Codec
	Level int // of zstd, on its own scale; 0 for its default
	// Dict lets PackAuto make a dictionary, which the table then stores.
	Dict bool
	// MaxUnpacked bounds a value that comes packed and must be unpacked.
	MaxUnpacked int64
	// MaxPacked is the length of the longest value, or heap, that is packed; 0 for
	// block.MaxCompressed.
	MaxPacked int
}

// Writer makes blocks. The zero value is to be Reset.
type Writer struct {
	o       Options
	mode    Packing // of the present block, not PackAuto
	auto    sampler
	train   trainer
	dict    *dictPacker // nil: there is no dictionary (any more)
	useDict bool        // mode packs with it
	hasDict bool        // a block was packed with it
	pack    *block.Compressor
	short   *shortTable
	keys    block.Buffer // user keys, one after the other
	values  block.Buffer // packed values, or the heap before it is packed
	scratch block.Buffer
	entries []entry
	facts   facts // of the first entries, made when they are needed
	before  facts // of all but the last one, where n says so
}

// entry is an entry of the block being written.
type entry struct {
	trailer base.Trailer
	keyEnd  uint32
	valEnd  uint32
	raw     uint32 // length of the value before it was packed
	codec   base.Codec
}

// keepCap is the most memory that a Writer keeps per buffer.
const keepCap = 1 << 20

// Reset empties the Writer and sets its options.
func (w *Writer) Reset(o Options) error {
	if w.pack == nil || o.Codec != w.o.Codec || o.Level != w.o.Level ||
		(o.Packing == PackNone) != (w.o.Packing == PackNone) {
		codec := block.Codec(o.Codec)
		if o.Packing == PackNone {
			codec = block.None
		}
		var err error
		if w.pack, err = block.NewCompressor(codec, o.Level); err != nil {
			return err
		}
	}
	w.pack.Max = block.MaxCompressed
	if o.MaxPacked > 0 {
		w.pack.Max = min(w.pack.Max, o.MaxPacked)
	}
	if w.short == nil {
		w.short = new(shortTable)
	}
	w.o, w.mode = o, o.Packing
	w.auto = sampler{raw: w.auto.raw}
	w.train = trainer{content: w.train.content[:0]}
	w.dict, w.useDict, w.hasDict = nil, false, false
	if o.Packing == PackAuto {
		w.mode = PackValues
	}
	w.truncate()
	return nil
}

func (w *Writer) truncate() {
	w.keys.Trim(keepCap)
	w.values.Trim(keepCap)
	w.scratch.Trim(keepCap)
	w.auto.raw.Trim(keepCap)
	if w.entries = w.entries[:0]; cap(w.entries) > keepCap/int(unsafe.Sizeof(entry{})) {
		w.entries = nil
	}
	w.noFacts()
}

// Free frees the memory; the Writer is then to be Reset.
func (w *Writer) Free() {
	w.keys.Free()
	w.values.Free()
	w.scratch.Free()
	w.auto.raw.Free()
	*w = Writer{}
}

// noFacts forgets the facts.
func (w *Writer) noFacts() {
	w.facts = facts{heap: w.mode == PackHeap, order: orderOf(w.o.Comparer)}
	w.before.n = 0
}

// factsOf are the facts of the first n entries, in other if they are neither facts nor before.
func (w *Writer) factsOf(n int, other *facts) *facts {
	switch {
	case w.facts.n <= n:
		w.facts.extend(w, n)
		return &w.facts
	case w.before.n == n && n > 0:
		return &w.before
	}
	*other = facts{heap: w.facts.heap, order: w.facts.order}
	other.extend(w, n)
	return other
}

// Len is the number of entries since Reset, or of those that Finish left.
func (w *Writer) Len() int { return len(w.entries) }

// SharedLen is how many bytes all keys share and the block stores once. There is an entry.
func (w *Writer) SharedLen() int {
	if w.facts.order == plain {
		return 0
	}
	return base.SharedPrefixLen(w.key(0), w.key(w.Len()-1))
}

// perEntry is the most that the columns take for an entry.
const perEntry = 32

// mostSize is the most that a block of n entries with these bytes takes.
func mostSize(n, keys, values int) uint64 {
	return fixedLen + 8 + tailsHdr + minRest + uint64(n)*perEntry + uint64(keys) + uint64(values)
}

// Add appends an entry, which must ascend in internal order. value comes raw or packed; one
// that is packed by Codec, or CodecShort, stays as it is if values are packed one by one.
func (w *Writer) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	n := uint64(len(value))
	if codec != base.CodecRaw {
		var err error
		if n, value, err = splitPacked(value, codec); err != nil {
			return err
		}
	}
	return w.add(key, t, codec, n, value)
}

// add is Add of a value of n bytes before it was packed.
func (w *Writer) add(key []byte, t base.Trailer, codec base.Codec, n uint64, value []byte) error {
	keys, values := w.keys.Len(), w.values.Len()
	if mostSize(len(w.entries)+1, keys+len(key), values+len(value)) > MaxSize {
		return errTooLarge
	}
	if err := w.keys.Append(key); err != nil {
		return err
	}
	e := entry{trailer: t, keyEnd: uint32(w.keys.Len())}
	err := w.addValue(&e, codec, n, value)
	if err == nil && mostSize(len(w.entries)+1, w.keys.Len(), w.values.Len()) > MaxSize {
		err = errTooLarge
	}
	if err != nil {
		w.keys.Truncate(keys)
		w.values.Truncate(values)
		return err
	}
	e.valEnd = uint32(w.values.Len())
	w.entries = append(w.entries, e)
	return nil
}

var errTooLarge = fmt.Errorf("%w: block of more than %d bytes", base.ErrTooLarge, uint64(MaxSize))

// addValue appends the value, packed as the mode says. It has n bytes unpacked.
func (w *Writer) addValue(e *entry, codec base.Codec, n uint64, value []byte) error {
	// A packed value is shorter than the value, see colRaw.
	// One that the dictionary packed comes from this Writer, see repack.
	if w.mode == PackValues && w.keeps(codec) && uint64(len(value)) < n && n <= uint64(w.pack.Max) {
		w.hasDict = w.hasDict || codec == base.CodecShortDict
		e.raw, e.codec = uint32(n), codec
		return w.values.Append(value)
	}
	raw := value
	if codec != base.CodecRaw {
		if n > uint64(min(max(w.o.MaxUnpacked, 0), MaxSize)) {
			return tooLong(n, w.o.MaxUnpacked)
		}
		var err error
		if raw, err = w.scratch.Resize(int(n)); err != nil {
			return err
		}
		if err := unpackInto(raw, value, codec, w.dict.get(), len(value)); err != nil {
			return err
		}
	}
	e.raw = uint32(n)
	if w.mode != PackValues {
		return w.values.Append(raw)
	}
	p, codec, err := w.packOne(&w.values, raw, w.inUse())
	w.hasDict = w.hasDict || codec == base.CodecShortDict
	e.codec = codec
	if err == nil && codec != base.CodecRaw {
		w.values.Set(w.values.Bytes()[:w.values.Len()+len(p)])
		return nil
	}
	return errors.Join(err, w.values.Append(raw))
}

// keeps reports whether values that come packed by codec stay as they are: those that this
// Writer would pack in the same way.
func (w *Writer) keeps(codec base.Codec) bool {
	return codec == base.CodecShort || codec == base.CodecShortDict || codec != base.CodecRaw &&
		codec == w.o.Codec
}

// minPacked is the shortest value that is packed.
const minPacked = 16

// inUse is the dictionary that the mode packs with, nil for none.
func (w *Writer) inUse() *dictPacker {
	if w.useDict {
		return w.dict
	}
	return nil
}

// Dict is the dictionary that readers of the blocks need, nil if they need none.
func (w *Writer) Dict() []byte {
	if !w.hasDict {
		return nil
	}
	return w.dict.get().content
}

// packOne packs a value by itself behind the end of buf, if that saves an eighth; else it is the
// value. d is nil or the dictionary to use.
func (w *Writer) packOne(buf *block.Buffer, value []byte,
	d *dictPacker) ([]byte, base.Codec, error) {
	if len(value) < minPacked {
		return value, base.CodecRaw, nil
	}
	if err := buf.Reserve(max(len(value), w.pack.Bound(len(value)))); err != nil {
		return nil, 0, err
	}
	b := buf.Bytes()
	if len(value) > maxShort {
		p, c := w.pack.Compress(b[len(b):], value)
		return p, base.Codec(c), nil
	}
	if d != nil {
		if n := d.packShort(b[len(b):len(b)+len(value)], value); n > 0 {
			return b[len(b) : len(b)+n], base.CodecShortDict, nil
		}
		return value, base.CodecRaw, nil
	}
	if n := w.short.packShort(b[len(b):len(b)+len(value)], value); n > 0 {
		return b[len(b) : len(b)+n], base.CodecShort, nil
	}
	return value, base.CodecRaw, nil
}

// key is user key i.
func (w *Writer) key(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = w.entries[i-1].keyEnd
	}
	return w.keys.Bytes()[from:w.entries[i].keyEnd]
}

// size is the length of the block that Finish would return now; of one with a heap, the
// most that it may be.
func (w *Writer) size() int {
	w.facts.extend(w, len(w.entries))
	l := w.layout(&w.facts)
	return int(l.size())
}

// Bound is the most that the length of the block may be that Finish would return now. A buffer
// for it needs block.Slack bytes more.
func (w *Writer) Bound() int {
	return int(mostSize(len(w.entries), w.keys.Len(), w.values.Len()))
}

// LastRaw is the length of the last value added before it was packed.
func (w *Writer) LastRaw() int { return int(w.entries[len(w.entries)-1].raw) }

// Packing is how the values of the present block are packed: not PackAuto.
func (w *Writer) Packing() Packing { return w.mode }

// ValueBytes is what the values take in the block, a heap before it is packed.
func (w *Writer) ValueBytes() int { return w.values.Len() }

// Fits reports whether the block that Finish would return now has at most limit bytes. Where limit
// is above preciseBelow, it may deny what just fits.
func (w *Writer) Fits(limit int) bool {
	if w.Bound() <= limit {
		return true
	}
	n := len(w.entries)
	if w.facts.n < n { // a block that does not fit ends before its last entry
		w.facts.extend(w, n-1)
		w.before = w.facts
		w.facts.extend(w, n)
	}
	lo, hi := w.facts.bounds()
	switch {
	case hi <= uint64(limit):
		return true
	case lo > uint64(limit) || limit > preciseBelow:
		return false
	}
	return w.size() <= limit
}

const preciseBelow = 64 << 10

// Finish appends a block of the first n entries to dst. The entries after them begin
// the next block. dst has room for it if it has for Bound and block.Slack.
func (w *Writer) Finish(dst []byte, n int) ([]byte, error) {
	var other facts
	l := w.layout(w.factsOf(n, &other))
	next, useDict, err := w.sample(n)
	if err != nil {
		return dst, err
	}
	heap := w.values.Bytes()[:l.values]
	if l.flags&flagHeap != 0 {
		p, c, err := w.packHeap(heap, w.inUse())
		if err != nil {
			return dst, err
		}
		w.hasDict = w.hasDict || c == base.CodecZstdDict
		heap, l.codec, l.values = p, c, len(p)
	}
	size, from := int(l.size()), len(dst)
	dst = slices.Grow(dst, size+block.Slack)[:from+size]
	w.encode(dst[from:], &l, heap)
	w.leave(n)
	w.useDict = useDict
	return dst, w.repack(next)
}

// packHeap packs the heap of values if that saves an eighth. d is nil or the dictionary to use.
func (w *Writer) packHeap(heap []byte, d *dictPacker) ([]byte, base.Codec, error) {
	if err := w.scratch.Reserve(w.pack.Bound(len(heap))); err != nil {
		return nil, 0, err
	}
	if d != nil && d.enc != nil && len(heap) <= maxDictHeap {
		p := d.enc.EncodeAll(heap, w.scratch.Bytes()[:0])
		if len(p) >= minRest && len(p) < len(heap)-len(heap)/8 {
			return p, base.CodecZstdDict, nil
		}
		return heap, base.CodecRaw, nil
	}
	p, c := w.pack.Compress(w.scratch.Bytes(), heap)
	if len(p) < minRest { // padding would follow
		return heap, base.CodecRaw, nil
	}
	return p, base.Codec(c), nil
}

// leave removes the first n entries.
func (w *Writer) leave(n int) {
	if n == len(w.entries) {
		w.truncate()
		return
	}
	if n == 0 {
		return
	}
	keys, values := w.entries[n-1].keyEnd, w.entries[n-1].valEnd
	w.keys.Truncate(copy(w.keys.Bytes(), w.keys.Bytes()[keys:]))
	w.values.Truncate(copy(w.values.Bytes(), w.values.Bytes()[values:]))
	w.entries = w.entries[:copy(w.entries, w.entries[n:])]
	for i := range w.entries {
		w.entries[i].keyEnd -= keys
		w.entries[i].valEnd -= values
	}
	w.noFacts()
}
