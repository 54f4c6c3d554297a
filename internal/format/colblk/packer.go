package colblk

import "github.com/loamdb/loam/internal/base"

// Packer packs short values as a Writer does, ahead of it: a Writer to which they come packed later
// keeps them as they are. It is used by one goroutine at a time.
type Packer struct {
	on    bool
	table shortTable
	buf   [maxLenBytes + maxShort]byte
}

// Sample decides whether values are packed, by the values of some blocks: if a Writer with these
// options packs them one by one, and without a dictionary. Otherwise they are better left to the
// Writer.
func (p *Packer) Sample(o Options, blocks [][][]byte) error {
	var w Writer
	defer w.Free()
	if err := w.Reset(o); err != nil {
		return err
	}
	for _, values := range blocks {
		for _, v := range values {
			if err := w.Add(nil, 0, base.CodecRaw, v); err != nil {
				return err
			}
		}
		next, useDict, err := w.sample(w.Len())
		if err != nil {
			return err
		}
		w.mode, w.useDict = next, useDict
		w.truncate()
	}
	p.on = w.mode == PackValues && !w.useDict
	return nil
}

// Pack returns the value as Writer.Add takes it with the codec. The result is valid until the next
// Pack.
func (p *Packer) Pack(value []byte) ([]byte, base.Codec) {
	if !p.on || len(value) < minPacked || len(value) > maxShort {
		return value, base.CodecRaw
	}
	n := putLen(p.buf[:], uint64(len(value)))
	m := p.table.packShort(p.buf[n:n+len(value)], value)
	if m == 0 {
		return value, base.CodecRaw
	}
	return p.buf[:n+m], base.CodecShort
}

// SampleBlocks is how many blocks Packer.Sample takes: the values from which a Writer makes a
// dictionary, and some that show its gain.
const SampleBlocks = trainBlocks + 4
