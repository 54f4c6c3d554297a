package block

import "github.com/loamdb/loam/internal/memory/offheap"

// Slack is how many bytes past its contents a Buffer keeps readable and
// writable, so that short copies may be done in whole words.
const Slack = 16

// Buffer is a byte slice off the Go heap that grows. The zero value is empty.
// Free frees the memory; the Buffer may then be used again.
type Buffer struct {
	b []byte
}

// Bytes returns the contents, valid until the next call that may grow.
func (b *Buffer) Bytes() []byte { return b.b }

// Len is the length of the contents.
func (b *Buffer) Len() int { return len(b.b) }

// Cap is the memory held.
func (b *Buffer) Cap() int { return cap(b.b) }

// Truncate cuts the contents to n bytes.
func (b *Buffer) Truncate(n int) { b.b = b.b[:n] }

// Reserve makes sure that n more bytes, and Slack after them, can be appended
// without growing.
func (b *Buffer) Reserve(n int) error {
	if cap(b.b)-len(b.b)-Slack >= n {
		return nil
	}
	return b.grow(n)
}

func (b *Buffer) grow(n int) error {
	need := len(b.b) + n + Slack
	bigger, err := offheap.Alloc(max(need, min(2*cap(b.b), need+64<<20)))
	if err != nil {
		return err
	}
	bigger = bigger[:copy(bigger, b.b)]
	offheap.Free(b.b)
	b.b = bigger
	return nil
}

// Resize makes the contents n bytes whose values are not defined.
func (b *Buffer) Resize(n int) ([]byte, error) {
	if cap(b.b)-Slack < n {
		b.b = b.b[:0]
		if err := b.Reserve(n); err != nil {
			return nil, err
		}
	}
	b.b = b.b[:n]
	return b.b, nil
}

// Set makes p the contents. REQUIRES: p is Bytes with bytes appended for which Reserve was
// asked.
func (b *Buffer) Set(p []byte) { b.b = p }

// Append appends p.
func (b *Buffer) Append(p []byte) error {
	if err := b.Reserve(len(p)); err != nil {
		return err
	}
	b.b = append(b.b, p...)
	return nil
}

// Trim frees the memory when more than keep bytes are held, and empties the
// buffer.
func (b *Buffer) Trim(keep int) {
	b.b = b.b[:0]
	if cap(b.b) > keep {
		b.Free()
	}
}

// Free frees the memory.
func (b *Buffer) Free() {
	offheap.Free(b.b)
	b.b = nil
}
