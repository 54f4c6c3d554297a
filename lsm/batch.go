package lsm

import (
	"fmt"
	"math"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/engine"
)

// maxBatchSize bounds the encoded size of a batch, and so of a key or value:
// a memtable addresses its entries with 32 bits.
const maxBatchSize = min(math.MaxUint32-1<<20, math.MaxInt)

// Batch collects puts and deletes that become visible, and durable, together
// or not at all. Later operations on the same key win. A batch copies what it
// is given and may be written more than once and reused after Clear. It is
// used by one goroutine at a time.
type Batch struct {
	repr   []byte
	err    error              // the first operation that did not fit
	spaces []*engine.Keyspace // those that operations name
}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{repr: batchrepr.Init(nil)} }

// BatchFromBytes makes a batch from its wire form (Bytes), which may come from
// outside: tags, lengths and count are all checked, and ErrInvalidArgument or
// ErrTooLarge says what is wrong. The bytes are copied.
func BatchFromBytes(repr []byte) (*Batch, error) {
	if err := batchrepr.Validate(repr, nil); err != nil {
		return nil, fmt.Errorf("%w: batch bytes: %w", ErrInvalidArgument, err)
	}
	if len(repr) > maxBatchSize {
		return nil, tooLarge("batch", len(repr))
	}
	return &Batch{repr: append([]byte(nil), repr...)}, nil
}

func tooLarge(what string, n int) error {
	return fmt.Errorf("%w: a %s of %d bytes; a batch holds at most %d", ErrTooLarge, what, n, int64(maxBatchSize))
}

// checkSize reports whether n more bytes of keys and values fit. If not, Write will fail
// with ErrTooLarge.
func (b *Batch) checkSize(n int) bool {
	if b.repr == nil {
		b.repr = batchrepr.Init(nil)
	}
	if n > maxBatchSize-len(b.repr)-32 {
		if b.err == nil {
			b.err = tooLarge("batch", len(b.repr)+n)
		}
		return false
	}
	return true
}

// Put sets key to value. Both are copied. A batch that grows above its limit (nearly 4 GiB)
// fails at Write with ErrTooLarge.
func (b *Batch) Put(key, value []byte) {
	if b.checkSize(len(key) + len(value)) {
		b.repr = batchrepr.AppendPut(b.repr, key, value)
	}
}

// Delete removes key, whether it exists or not. The key is copied.
func (b *Batch) Delete(key []byte) {
	if b.checkSize(len(key)) {
		b.repr = batchrepr.AppendDelete(b.repr, key)
	}
}

// in adds an entry to a keyspace.
func (b *Batch) in(k *engine.Keyspace, kind base.Kind, key, value []byte) {
	if b.checkSize(len(key) + len(value)) {
		b.note(k)
		b.repr = batchrepr.AppendEntry(b.repr, k.Tree.ID(), kind, key, value)
	}
}

// Append adds the operations of other, if it is not nil, behind those of b. They are
// copied.
func (b *Batch) Append(other *Batch) {
	if other == nil {
		return
	}
	if other.err != nil && b.err == nil {
		b.err = other.err
	}
	if other.Count() == 0 || !b.checkSize(len(other.repr)) {
		return
	}
	for _, k := range other.spaces {
		b.note(k)
	}
	repr, ok := batchrepr.AppendBatch(b.repr, other.repr)
	if !ok && b.err == nil {
		b.err = tooLarge("batch", len(b.repr)+len(other.repr))
	}
	b.repr = repr
}

// note remembers that operations name a keyspace.
func (b *Batch) note(k *engine.Keyspace) {
	if !slices.Contains(b.spaces, k) {
		b.spaces = append(b.spaces, k)
	}
}

// Clear empties the batch and keeps its memory.
func (b *Batch) Clear() {
	b.repr = batchrepr.Init(b.repr[:0])
	b.err, b.spaces = nil, b.spaces[:0]
}

// Count is the number of operations.
func (b *Batch) Count() int {
	if len(b.repr) == 0 {
		return 0
	}
	return int(batchrepr.Count(b.repr))
}

// Size is the encoded size in bytes: what Write appends to the log.
func (b *Batch) Size() int { return max(len(b.repr), batchrepr.HeaderLen) }

// Bytes is the batch in LevelDB's wire form. The slice is the batch's own and
// valid until its next change.
func (b *Batch) Bytes() []byte {
	if b.repr == nil {
		b.repr = batchrepr.Init(nil)
	}
	return b.repr
}

// Each calls put or del for every operation in order, until one of them
// returns an error, which Each returns. The slices are valid during the call, and
// not to be changed.
func (b *Batch) Each(put func(key, value []byte) error, del func(key []byte) error) error {
	if put == nil || del == nil {
		return fmt.Errorf("%w: Each needs both functions", ErrInvalidArgument)
	}
	if b.Count() == 0 {
		return nil
	}
	it := batchrepr.Read(b.repr)
	for {
		_, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		var err error
		if kind.IsTombstone() {
			err = del(key)
		} else {
			err = put(key, value)
		}
		if err != nil {
			return err
		}
	}
}
