package colblk

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// MaxPart is the most entries of a Part.
const MaxPart = 2

// Part is a few neighbours of a block, unpacked: the part that a seek usually needs.
type Part struct {
	trailers [MaxPart]base.Trailer
	keyOff   [MaxPart + 1]uint32
	valOff   [MaxPart]uint32
}

// Read makes e the entries [lo, hi) of v, at most MaxPart; their keys and values are copied to buf.
// It is an error if that takes more than limit bytes, a heap of values included, which is unpacked
// in scratch. Like Get, it writes nothing outside of its buffers even where the bytes of the block
// change meanwhile.
func (p *Part) Read(v *Block, e *base.Chunk, lo, hi int, dict *Dict, limit int64, buf,
	scratch *block.Buffer) error {
	need := uint64(0)
	for i := lo; i < hi; i++ {
		n := v.KeyLen(i)
		if !v.Inside(i) || n < 0 || uintptr(n) > v.size {
			return corrupt("an entry outside of its block")
		}
		need += uint64(n)
	}
	r, err := v.values(dict, limit, scratch)
	if err != nil {
		return err
	}
	if need += v.partLen(&r, lo, hi); need > uint64(max(limit, 0)) {
		return tooLong(need, limit)
	}
	mem, err := buf.Resize(int(need))
	if err != nil {
		return err
	}
	*e = base.Chunk{AllLiveSets: v.flags&flagDistinct != 0}
	dst := mem[:0]
	for i := lo; i < hi; i++ {
		k, t := i-lo, v.Trailer(i)
		p.keyOff[k], p.trailers[k] = uint32(len(dst)), t
		dst = v.AppendKey(dst, i)
		p.valOff[k] = uint32(len(dst))
		if dst, err = r.appendTo(dst, i, dict, limit); err != nil {
			return err
		}
		e.AllLiveSets = e.AllLiveSets && t.Kind() == base.KindSet
		e.MaxSeq = max(e.MaxSeq, t.Seq())
	}
	n := hi - lo
	p.keyOff[n] = uint32(len(dst))
	e.Data, e.KeyOff, e.ValOff, e.ValEnd, e.Trailers =
		dst, p.keyOff[:n:n], p.valOff[:n:n], p.keyOff[1:n+1:n+1], p.trailers[:n:n]
	return nil
}

// partLen is the length of values lo to hi, unpacked.
func (v *Block) partLen(r *values, lo, hi int) (n uint64) {
	for i := lo; i < hi; i++ {
		from, to := r.ends.part(i, r.stride)
		n += r.unpackedLen(i, int(to-from))
	}
	return n
}

// appendTo appends value i, unpacked.
func (r *values) appendTo(dst []byte, i int, dict *Dict, limit int64) ([]byte, error) {
	from, to := r.ends.part(i, r.stride)
	if from > to || to > uint64(len(r.src)) {
		return dst, corrupt("a value outside of its block")
	}
	p := r.src[from:to]
	n := r.unpackedLen(i, len(p))
	if n > uint64(max(limit, 0)) {
		return dst, tooLong(n, limit)
	}
	codec := base.CodecRaw
	if !r.plain {
		codec = r.codecOf(i, len(p), n)
	}
	return appendUnpacked(dst, p, codec, dict, int(n), len(r.src)-int(from))
}
