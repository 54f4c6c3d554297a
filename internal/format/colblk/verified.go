package colblk

import "github.com/loamdb/loam/internal/base"

// OpenVerified reads bytes that Open found valid, in memory that may have changed since: in a
// mapped file. It checks the header again, which costs little. Get and Inside do not write,
// whatever the columns hold; what they answer is worth as much as the bytes.
func OpenVerified(b []byte, cmp *base.Comparer) (Block, error) {
	if err := checkLen(b); err != nil {
		return Block{}, err
	}
	v := Reopen(b)
	return v, v.checkHeader(cmp)
}

// Inside reports whether value i lies in the block, which Open has found of all values.
func (v *Block) Inside(i int) bool {
	from, to := v.col(colValue).part(i, v.field32(hdrValueStride))
	return from <= to && (to <= uint64(v.size-v.valuesOff()) || v.packedHeap())
}
