package colblk

import "github.com/loamdb/loam/internal/block"

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
	// after it.
	PackAuto
)

const (
	sampleEvery = 64
	maxSample   = 1 << 20 // bytes of values; a block with more is no sample
)

// sampler decides between packings for PackAuto.
type sampler struct {
	left   int          // blocks before the next sample
	raw    block.Buffer // values of a sample, unpacked
	values uint64       // bytes of the samples so far packed by each way; older ones count half
	heap   uint64
	plain  uint64
}

// decide takes a sample and returns what packing the next blocks should have.
func (s *sampler) decide(plain, values, heap int) Packing {
	s.plain = s.plain/2 + uint64(plain)
	s.values = s.values/2 + uint64(values)
	s.heap = s.heap/2 + uint64(heap)
	switch {
	case min(s.values, s.heap) >= s.plain-s.plain/8:
		return PackNone
	case s.values*10 <= s.heap*11:
		return PackValues
	}
	return PackHeap
}

// finishSample decides what packing follows after a block of the first n entries.
func (w *Writer) finishSample(n int) (Packing, error) {
	w.auto.left = sampleEvery
	total := uint64(0)
	for i := range w.entries[:n] {
		total += uint64(w.entries[i].raw)
	}
	if total > maxSample {
		return w.mode, nil
	}
	plain, packed := w.values.Bytes(), int(w.entries[n-1].valEnd)
	if w.mode == PackValues {
		var err error
		if plain, err = w.unpackAll(n); err != nil {
			return w.mode, err
		}
	} else {
		plain = plain[:packed]
		packed = 0
		from := uint32(0)
		for _, e := range w.entries[:n] {
			p, _, err := w.packOne(&w.scratch, plain[from:e.valEnd])
			if err != nil {
				return w.mode, err
			}
			packed += len(p)
			from = e.valEnd
		}
	}
	heap, _, err := w.packHeap(plain)
	if err != nil {
		return w.mode, err
	}
	return w.auto.decide(len(plain), packed, len(heap)), nil
}

// unpackAll unpacks the first n values, which are packed one by one.
func (w *Writer) unpackAll(n int) ([]byte, error) {
	raw := &w.auto.raw
	raw.Truncate(0)
	from, values := uint32(0), w.values.Bytes()
	for _, e := range w.entries[:n] {
		if err := raw.Room(int(e.raw)); err != nil {
			return nil, err
		}
		b := raw.Bytes()
		p := values[from:e.valEnd]
		if err := unpackInto(b[len(b):len(b)+int(e.raw)], p, e.codec, nil, len(p)); err != nil {
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
	w.facts = w.noFacts()
	defer keys.Free()
	defer values.Free()
	key, value := keys.Bytes(), values.Bytes()
	from, valFrom := uint32(0), uint32(0)
	for _, e := range entries {
		if err := w.add(key[from:e.keyEnd], e.trailer, e.codec, uint64(e.raw), value[valFrom:e.valEnd]); err != nil {
			return err
		}
		from, valFrom = e.keyEnd, e.valEnd
	}
	return nil
}
