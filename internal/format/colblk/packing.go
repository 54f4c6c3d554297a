package colblk

import (
	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// Packing says how values are packed.
type Packing uint8

const (
	// PackNone leaves values as they are.
	PackNone Packing = iota
	// PackValues packs each value by itself, so that a read unpacks only what it asks for and
	// a compaction copies what is packed.
	PackValues
	// PackHeap packs all values of a block as one piece.
	PackHeap
	// PackAuto is PackValues where that takes at most a tenth more than PackHeap, else PackHeap;
	// PackNone where neither saves an eighth. The first block is a sample, and one in sampleEvery
	// after it. With Options.Dict either may use a dictionary, from the ninth block on.
	PackAuto
)

const (
	sampleEvery = 64
	maxSample   = 1 << 20 // bytes of values; a block with more is no sample
)

// sampler decides between packings for PackAuto.
type sampler struct {
	left int          // blocks before the next sample
	raw  block.Buffer // values of a sample, unpacked
	sum  sizes        // of the samples so far; older ones count half
}

// sizes are the bytes of values by each way to pack them.
type sizes struct{ plain, values, heap, dictValues, dictHeap uint64 }

// dictPays reports whether a dictionary saves an eighth.
func dictPays(with, without uint64) bool { return with*8 <= without*7 }

// decide takes a sample and returns what packing the next blocks should have.
func (s *sampler) decide(n sizes) (p Packing, useDict bool) {
	t := &s.sum
	t.plain, t.values, t.heap = t.plain/2+n.plain, t.values/2+n.values, t.heap/2+n.heap
	t.dictValues, t.dictHeap = t.dictValues/2+n.dictValues, t.dictHeap/2+n.dictHeap
	values, heap := t.values, t.heap
	valuesDict, heapDict := dictPays(t.dictValues, values), dictPays(t.dictHeap, heap)
	if valuesDict {
		values = t.dictValues
	}
	if heapDict {
		heap = t.dictHeap
	}
	switch {
	case min(values, heap) >= t.plain-t.plain/8:
		return PackNone, false
	case values*10 <= heap*11:
		return PackValues, valuesDict
	}
	return PackHeap, heapDict
}

// trainer collects a dictionary: some values of each of a table's first blocks, of which a
// part shows that there will be enough blocks to pay for it.
type trainer struct {
	blocks  int // seen so far
	content []byte
}

const (
	trainBlocks = 8
	dictLen     = 4 << 10
	// minDict is the least that is worth a dictionary.
	minDict = 1 << 10
	// maxDictHeap is the longest heap for which an encoder with a dictionary, of a window
	// of 128 KiB, is used.
	maxDictHeap = 64 << 10
)

// take takes some of the values that lie one after the other in plain.
func (t *trainer) take(entries []entry, plain []byte) {
	t.blocks++
	room := min(dictLen*t.blocks/trainBlocks, dictLen)
	step := max(len(entries)/max(1, (room-len(t.content))*len(entries)/max(len(plain), 1)), 1)
	from := uint32(0)
	for i, e := range entries {
		if i%step == 0 && e.raw >= minPacked && e.raw <= maxShort &&
			len(t.content)+int(e.raw) <= room {
			t.content = append(t.content, plain[from:from+e.raw]...)
		}
		from += e.raw
	}
}

// sample decides what packing follows after a block of the first n entries.
func (w *Writer) sample(n int) (next Packing, useDict bool, err error) {
	training := w.o.Dict && w.train.blocks < trainBlocks
	switch {
	case w.o.Packing != PackAuto || n == 0:
		return w.mode, w.useDict, nil
	case w.auto.left > 0 && !training:
		w.auto.left--
		return w.mode, w.useDict, nil
	}
	total := uint64(0)
	for i := range w.entries[:n] {
		total += uint64(w.entries[i].raw)
	}
	plain := w.values.Bytes()[:w.entries[n-1].valEnd]
	if total <= maxSample && w.mode == PackValues {
		if plain, err = w.unpackAll(n); err != nil {
			return w.mode, w.useDict, err
		}
	}
	sampling := w.auto.left == 0
	if w.auto.left--; sampling {
		w.auto.left = sampleEvery
	}
	if total > maxSample {
		w.train.blocks = max(w.train.blocks, trainBlocks)
		return w.mode, w.useDict, nil
	}
	if training {
		if w.train.take(w.entries[:n], plain); w.train.blocks == trainBlocks &&
			len(w.train.content) >= minDict {
			w.auto.left, w.auto.sum = 0, sizes{} // older samples say nothing of the dictionary
			if w.dict, err = newDictPacker(w.train.content, w.o.Codec == base.CodecZstd,
				zstd.EncoderLevelFromZstd(w.o.Level)); err != nil {
				return w.mode, w.useDict, err
			}
		}
	}
	if !sampling {
		return w.mode, w.useDict, nil
	}
	return w.measure(n, plain)
}

// measure packs the first n values, which are plain, in all ways, and decides.
func (w *Writer) measure(n int, plain []byte) (next Packing, useDict bool, err error) {
	s := sizes{plain: uint64(len(plain))}
	if s.values, err = w.sizeOfValues(n, plain, nil); err != nil {
		return w.mode, w.useDict, err
	}
	heap, _, err := w.packHeap(plain, nil)
	if err != nil {
		return w.mode, w.useDict, err
	}
	s.heap = uint64(len(heap))
	s.dictValues, s.dictHeap = s.values, s.heap
	if w.dict != nil {
		if s.dictValues, err = w.sizeOfValues(n, plain, w.dict); err != nil {
			return w.mode, w.useDict, err
		}
		if w.dict.enc != nil {
			if heap, _, err = w.packHeap(plain, w.dict); err != nil {
				return w.mode, w.useDict, err
			}
			s.dictHeap = uint64(len(heap))
		}
	}
	next, useDict = w.auto.decide(s)
	if w.dict != nil && !useDict && !w.hasDict && !w.useDict {
		w.dict = nil // it did not pay at once, so it hardly will later
	}
	return next, useDict, nil
}

// sizeOfValues is the bytes of the first n values, which are plain, packed one by one.
func (w *Writer) sizeOfValues(n int, plain []byte, d *dictPacker) (size uint64, err error) {
	if w.mode == PackValues && d == w.inUse() {
		return uint64(w.entries[n-1].valEnd), nil
	}
	from := uint32(0)
	for _, e := range w.entries[:n] {
		p, _, err := w.packOne(&w.scratch, plain[from:from+e.raw], d)
		if err != nil {
			return 0, err
		}
		size += uint64(len(p))
		from += e.raw
	}
	return size, nil
}

// get is the dictionary, nil without one.
func (d *dictPacker) get() *Dict {
	if d == nil {
		return nil
	}
	return d.dict
}

// unpackAll unpacks the first n values, which are packed one by one.
func (w *Writer) unpackAll(n int) ([]byte, error) {
	raw := &w.auto.raw
	raw.Truncate(0)
	from, values := uint32(0), w.values.Bytes()
	for _, e := range w.entries[:n] {
		if err := raw.Reserve(int(e.raw)); err != nil {
			return nil, err
		}
		b := raw.Bytes()
		p := values[from:e.valEnd]
		if err := unpackInto(b[len(b):len(b)+int(e.raw)], p, e.codec, w.dict.get(),
			len(p)); err != nil {
			return nil, err
		}
		raw.Set(b[:len(b)+int(e.raw)])
		from = e.valEnd
	}
	return raw.Bytes(), nil
}

// repack gives the entries, which Finish left, the packing that follows.
func (w *Writer) repack(to Packing) error {
	if to == w.mode {
		return nil
	}
	w.mode = to
	entries, keys, values := w.entries, w.keys, w.values
	w.entries, w.keys, w.values = nil, block.Buffer{}, block.Buffer{}
	w.noFacts()
	defer keys.Free()
	defer values.Free()
	key, value := keys.Bytes(), values.Bytes()
	from, valFrom := uint32(0), uint32(0)
	for _, e := range entries {
		if err := w.add(key[from:e.keyEnd], e.trailer, e.codec, uint64(e.raw),
			value[valFrom:e.valEnd]); err != nil {
			return err
		}
		from, valFrom = e.keyEnd, e.valEnd
	}
	return nil
}
