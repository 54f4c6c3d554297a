package mergeop

import (
	"slices"
	"sync"
)

// Fold collects the visible versions of one key, all newest first or all oldest first, up
// to the one that is no operand, and lets an operator make the value. The zero value is
// ready. It copies what it is given.
type Fold struct {
	buf         []byte
	first       int   // where the operands begin in buf
	ends        []int // of the operands in buf
	existing    [2]int
	hasExisting bool
	operands    [][]byte // scratch of Value
	value       []byte   // scratch of Value
}

// maxKept is the largest buffer, in bytes, and maxKeptOperands the most operands, for which a
// Fold keeps memory for its next use.
const (
	maxKept         = 1 << 20
	maxKeptOperands = 16 << 10
)

// extraRoom is how many bytes an operator may append beyond those of its arguments before
// it has to allocate.
const extraRoom = 64

var folds = sync.Pool{New: func() any { return new(Fold) }}

// New returns an empty Fold. Free gives it back.
func New() *Fold {
	f := folds.Get().(*Fold)
	f.Reset()
	return f
}

// Free gives f back. What Value returned is not valid any more.
func (f *Fold) Free() {
	if cap(f.buf) > maxKept {
		f.buf = nil
	}
	if cap(f.value) > maxKept {
		f.value = nil
	}
	if cap(f.operands) > maxKeptOperands || cap(f.ends) > maxKeptOperands {
		f.operands, f.ends = nil, nil
	}
	folds.Put(f)
}

// Reset forgets everything.
func (f *Fold) Reset() { f.buf, f.first, f.ends, f.hasExisting = f.buf[:0], 0, f.ends[:0], false }

// Buffer is what the next version is appended to, for Operand or Existing.
func (f *Fold) Buffer() []byte { return f.buf }

// Operand takes an operand: buf is Buffer with the operand appended.
func (f *Fold) Operand(buf []byte) {
	f.buf = buf
	f.ends = append(f.ends, len(buf))
}

// Existing takes the value that the operands change: buf is Buffer with bytes appended, the
// value among them from index from on. It comes before all operands or after them.
func (f *Fold) Existing(buf []byte, from int) {
	f.buf, f.existing, f.hasExisting = buf, [2]int{from, len(buf)}, true
	if len(f.ends) == 0 {
		f.first = len(buf)
	}
}

// Len is the number of operands.
func (f *Fold) Len() int { return len(f.ends) }

// Only is the value where there are no operands.
func (f *Fold) Only() []byte { return f.buf[f.existing[0]:f.existing[1]] }

// Value returns what op makes of the collected versions of key. It is valid until the
// next use of f.
func (f *Fold) Value(op *Operator, key []byte, newestFirst bool) ([]byte, error) {
	if op == nil {
		return nil, Missing(key)
	}
	list := f.operands[:0]
	start := f.first
	for _, end := range f.ends {
		list = append(list, f.buf[start:end:end])
		start = end
	}
	if newestFirst {
		slices.Reverse(list)
	}
	f.operands = list
	var existing []byte
	if f.hasExisting {
		existing = f.buf[f.existing[0]:f.existing[1]:f.existing[1]]
		if existing == nil {
			existing = []byte{}
		}
	}
	f.value = slices.Grow(f.value[:0], len(f.buf)+extraRoom)
	return op.full(f.value, key, existing, list)
}
