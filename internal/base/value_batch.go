package base

import "sort"

// ValueBatch is a list of handles whose values are read together.
type ValueBatch struct {
	Values []BatchedValue
	places []int // indexes of Values
}

// BatchedValue is one value of a batch: bytes [From, To) of the buffer into which it was read.
type BatchedValue struct {
	ValueHandle
	From, To int // To is 0 if the value was not read; reading it alone tells why
}

// Reset empties the batch.
func (b *ValueBatch) Reset() { b.Values = b.Values[:0] }

// Add appends a handle. A malformed one is refused.
func (b *ValueBatch) Add(handle []byte) bool {
	h, err := DecodeValueHandle(handle)
	if err == nil {
		b.Values = append(b.Values, BatchedValue{ValueHandle: h})
	}
	return err == nil
}

// ByPlace returns the indexes of Values in the order of files, and of offsets in a file.
func (b *ValueBatch) ByPlace() []int {
	b.places = b.places[:0]
	sorted := true
	for i := range b.Values {
		b.places = append(b.places, i)
		sorted = sorted && (i == 0 || !b.before(i, i-1))
	}
	if !sorted {
		sort.Slice(b.places, func(i, j int) bool { return b.before(b.places[i], b.places[j]) })
	}
	return b.places
}

// before reports whether value i lies before value j.
func (b *ValueBatch) before(i, j int) bool {
	v, w := &b.Values[i].ValueHandle, &b.Values[j].ValueHandle
	switch {
	case v.InFile != w.InFile:
		return w.InFile
	case v.Log != w.Log:
		return v.Log < w.Log
	}
	return v.Offset < w.Offset
}
