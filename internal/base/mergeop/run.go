package mergeop

import (
	"iter"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// Run is some operands of one key that follow each other, with their trailers. It copies
// what it is given. The zero value is empty.
type Run struct {
	buf   []byte
	items []item // newest first
	value []byte // scratch
	list  [][]byte
}

// item is an operand in Run.buf.
type item struct {
	start, end int
	trailer    base.Trailer
}

// Reset makes r empty.
func (r *Run) Reset() {
	if cap(r.buf) > maxKept {
		r.buf, r.value = nil, nil
	}
	r.buf, r.items = r.buf[:0], r.items[:0]
}

// Older adds an operand that is older than all others.
func (r *Run) Older(operand []byte, t base.Trailer) {
	start := len(r.buf)
	r.buf = append(r.buf, operand...)
	r.items = append(r.items, item{start, len(r.buf), t})
}

// Len is the number of operands.
func (r *Run) Len() int { return len(r.items) }

// Size is the bytes of the operands.
func (r *Run) Size() int { return len(r.buf) }

// Newest is the trailer of the newest operand.
//
// REQUIRES: Len() > 0.
func (r *Run) Newest() base.Trailer { return r.items[0].trailer }

func (r *Run) operand(i item) []byte { return r.buf[i.start:i.end:i.end] }

// All ranges over the operands, newest first.
func (r *Run) All() iter.Seq2[[]byte, base.Trailer] {
	return func(yield func([]byte, base.Trailer) bool) {
		for _, i := range r.items {
			if !yield(r.operand(i), i.trailer) {
				return
			}
		}
	}
}

// Full returns what op makes of existing, nil for no value, and all operands. It is valid
// until the next use of r.
func (r *Run) Full(op *Operator, key, existing []byte) ([]byte, error) {
	if op == nil {
		return nil, Missing(key)
	}
	r.list = r.list[:0]
	for _, i := range slices.Backward(r.items) {
		r.list = append(r.list, r.operand(i))
	}
	r.value = slices.Grow(r.value[:0], len(r.buf)+len(existing)+extraRoom)
	base.BeginAsking()
	defer base.EndAsking()
	return op.full(r.value, key, existing, r.list)
}

// Join makes one operand of neighbours where op has a Partial for them; it has the trailer
// of the newer one. Neighbours are joined in pairs, and the results in pairs again, so that
// operands that grow are copied a logarithmic number of times. After an error, which is a
// panic's, the operands are those there were, or joined in part.
func (r *Run) Join(op *Operator, key []byte) error {
	base.BeginAsking()
	defer base.EndAsking()
	for op.Partial != nil && len(r.items) > 1 {
		var buf []byte
		var items []item
		joined := false
		for i := 0; i < len(r.items); i++ {
			right := r.items[i]
			operand := r.operand(right)
			if i+1 < len(r.items) {
				o, ok, err := op.partial(r.value, key, r.operand(r.items[i+1]), operand)
				if err != nil {
					return err
				}
				if ok {
					operand, joined = o, true
					i++
				}
			}
			start := len(buf)
			buf = append(buf, operand...)
			items = append(items, item{start, len(buf), right.trailer})
		}
		if !joined {
			return nil
		}
		r.buf, r.items = buf, items
	}
	return nil
}
