package lsm

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store"
)

// Batch collects writes that become visible, and durable, together or not at all. Later operations
// on the same key win. A batch copies what it is given, may be written more than once and reused
// after Clear. It is used by one goroutine at a time. Make one with NewBatch, or DB.NewBatch.
type Batch struct{ b store.Batch }

// NewBatch returns an empty batch. Its operations are on the keyspace that it is written to,
// unless Batch.In says otherwise.
func NewBatch() *Batch { return &Batch{store.Batch{Repr: batchrepr.Init(nil)}} }

// BatchFromBytes makes a batch from its wire form (Bytes), which may come from outside: tags,
// lengths and count are all checked; a defect is ErrInvalidArgument or ErrTooLarge. The bytes are
// copied. The batch may only have puts and deletes in the default keyspace; WriteBytes takes every
// kind.
func BatchFromBytes(repr []byte) (*Batch, error) {
	b, err := store.PlainBatch(repr)
	if err != nil {
		return nil, err
	}
	b.Repr = slices.Clone(repr)
	return &Batch{b}, nil
}

// Put sets key to value. Both are copied. A batch that grows above its limit (nearly 4 GiB)
// fails at Write with ErrTooLarge.
func (b *Batch) Put(key, value []byte) { b.b.Put(key, value) }

// Delete removes key, whether it exists or not. The key is copied.
func (b *Batch) Delete(key []byte) { b.b.Delete(key) }

// Merge adds an operand to key, see DB.Merge. Both are copied.
func (b *Batch) Merge(key, operand []byte) { b.b.Add(base.KindMerge, key, operand) }

// Append adds copies of the operations of other at the end of b. A nil other adds none. Operations
// of other without a keyspace of their own go to the keyspace of b.
func (b *Batch) Append(other *Batch) {
	if other != nil {
		b.b.Append(&other.b)
	}
}

// Clear empties the batch and keeps its memory, and the keyspace of NewBatch.
func (b *Batch) Clear() { b.b.Clear() }

// Count is the number of operations.
func (b *Batch) Count() int { return b.b.Count() }

// Size is the encoded size in bytes, about what Write appends to the log.
func (b *Batch) Size() int { return max(len(b.b.Repr), batchrepr.HeaderLen) }

// Bytes is the batch in LevelDB's wire form, which operations on chosen keyspaces extend:
// docs/format-batch.md. WriteBytes applies an operation without a keyspace, such as those of
// DB.NewBatch, to the keyspace on which it is called. The slice belongs to the batch and is valid
// until its next change.
func (b *Batch) Bytes() []byte { return b.b.Bytes() }

// Each calls put or del for every operation in order, until one of them returns an error, which
// Each returns. The slices are valid during the call, and must not be changed. It fails with
// ErrInvalidArgument if an operation is on another keyspace than the default one, or is no put or
// delete.
func (b *Batch) Each(put func(key, value []byte) error, del func(key []byte) error) error {
	if put == nil || del == nil {
		return base.Invalidf("Each needs both functions")
	}
	if b.Count() == 0 {
		return nil
	}
	it := batchrepr.ReadDraft(b.b.Repr, base.DefaultKeyspace)
	for {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if !kind.InLevelDB() {
			return base.Invalidf("Each knows puts and deletes, and the batch has a %v", kind)
		}
		if id != base.DefaultKeyspace {
			return base.Invalidf("Each knows no keyspaces, and an operation of the batch names one")
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
