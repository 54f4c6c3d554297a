package prefix

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
)

// Reader reads abbreviations straight out of chunks, without making slices of
// keys. Every key that it is asked for begins with the same Skip bytes.
type Reader struct {
	Skip int
	// Flip is what abbreviations are XORed with: Flip of the comparer, or its
	// complement where they are to ascend as keys descend.
	Flip uint64
	// None means that the comparer has no abbreviations: all are 0.
	None bool
}

// Abbrev is the abbreviation of the chunk's entry i.
func (r *Reader) Abbrev(e *base.Chunk, i int) uint64 {
	if r.None {
		return 0
	}
	off, end := uint(e.KeyOff[i])+uint(r.Skip), uint(e.ValOff[i])
	// No further than the entry: behind it a memtable may be growing.
	if rest := e.Data[off:e.ValEnd[i]]; len(rest) >= 8 {
		v := binary.BigEndian.Uint64(rest)
		if n := end - off; n < 8 {
			v &^= ^uint64(0) >> (8 * n) // bytes of the value
		}
		return v ^ r.Flip
	}
	return base.Prefix64(e.Data[off:end], 0) ^ r.Flip
}
