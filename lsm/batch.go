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

// Batch collects puts, deletes and merges that become visible, and durable, together
// or not at all. Later operations on the same key win. A batch copies what it
// is given and may be written more than once and reused after Clear. It is
// used by one goroutine at a time.
type Batch struct {
	repr   []byte
	err    error              // the first operation that did not fit
	home   *engine.Keyspace   // of operations that name none; nil: the default one
	spaces []*engine.Keyspace // those that operations name
	plain  bool               // an operation is on the default keyspace
	beyond base.Kind          // the first kind that LevelDB's format does not have; 0: none
	ranges bool               // there is a range delete
	// expires says that an operation expires, mergesByReading that Write found a merge of a
	// keyspace where values do.
	expires, mergesByReading bool
}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{repr: batchrepr.Init(nil)} }

// BatchFromBytes makes a batch from its wire form (Bytes), which may come from
// outside: tags, lengths and count are all checked, and ErrInvalidArgument or
// ErrTooLarge says what is wrong. The bytes are copied. They may have puts and deletes in the
// default keyspace only; WriteBytes takes the others, too.
func BatchFromBytes(repr []byte) (*Batch, error) {
	if err := batchrepr.Validate(repr, nil); err != nil {
		return nil, fmt.Errorf("%w: batch bytes: %w", ErrInvalidArgument, err)
	}
	if len(repr) > maxBatchSize {
		return nil, tooLarge("batch", len(repr))
	}
	return &Batch{repr: append([]byte(nil), repr...), plain: true}, nil
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
	if b.home != nil {
		b.add(b.home, base.KindSet, key, value)
	} else if b.checkSize(len(key) + len(value)) {
		b.plain = true
		b.repr = batchrepr.AppendPut(b.repr, key, value)
	}
}

// Delete removes key, whether it exists or not. The key is copied.
func (b *Batch) Delete(key []byte) {
	if b.home != nil {
		b.add(b.home, base.KindDelete, key, nil)
	} else if b.checkSize(len(key)) {
		b.plain = true
		b.repr = batchrepr.AppendDelete(b.repr, key)
	}
}

// Merge adds an operand to key, see DB.Merge. Both are copied.
func (b *Batch) Merge(key, operand []byte) { b.add(b.home, base.KindMerge, key, operand) }

// add adds an operation on a keyspace; nil is the default one.
func (b *Batch) add(k *engine.Keyspace, kind base.Kind, key, value []byte) {
	if !b.checkSize(len(key) + len(value)) {
		return
	}
	id := base.DefaultKeyspace
	if k != nil {
		b.note(k)
		id = k.Tree.ID()
	}
	b.plain = b.plain || id == base.DefaultKeyspace
	if b.beyond == 0 && !kind.InLevelDB() {
		b.beyond = kind
	}
	b.repr = batchrepr.AppendEntry(b.repr, id, kind, key, value)
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
	if b.beyond == 0 {
		b.beyond = other.beyond
	}
	b.ranges, b.expires = b.ranges || other.ranges, b.expires || other.expires
	b.plain = b.plain || other.plain
	repr, ok := batchrepr.AppendBatch(b.repr, other.repr)
	if !ok && b.err == nil {
		b.err = tooLarge("batch", len(b.repr)+len(other.repr))
	}
	b.repr = repr
}

// note remembers that operations name a keyspace.
func (b *Batch) note(k *engine.Keyspace) {
	if n := len(b.spaces); (n == 0 || b.spaces[n-1] != k) && !slices.Contains(b.spaces, k) {
		b.spaces = append(b.spaces, k)
	}
}

// Clear empties the batch and keeps its memory, and the keyspace of NewBatch.
func (b *Batch) Clear() {
	b.repr = batchrepr.Init(b.repr[:0])
	b.expires, b.mergesByReading = false, false
	b.err, b.ranges, b.spaces, b.beyond, b.plain = nil, false, b.spaces[:0], 0, false
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

// Bytes is the batch in LevelDB's wire form, which operations on other keyspaces extend:
// docs/format-batch.md. The slice is the batch's own and valid until its next change.
func (b *Batch) Bytes() []byte {
	if b.repr == nil {
		b.repr = batchrepr.Init(nil)
	}
	return b.repr
}

// Each calls put or del for every operation in order, until one of them
// returns an error, which Each returns. The slices are valid during the call, and
// not to be changed. It fails with ErrInvalidArgument if an operation is on another keyspace
// than the default one, or neither a put nor a delete.
func (b *Batch) Each(put func(key, value []byte) error, del func(key []byte) error) error {
	if put == nil || del == nil {
		return fmt.Errorf("%w: Each needs both functions", ErrInvalidArgument)
	}
	if b.Count() == 0 {
		return nil
	}
	it := batchrepr.Read(b.repr)
	for {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if !kind.InLevelDB() {
			return fmt.Errorf("%w: Each knows puts and deletes, and the batch has a %v", ErrInvalidArgument, kind)
		}
		if id != base.DefaultKeyspace {
			return fmt.Errorf("%w: Each knows no keyspaces, and an operation of the batch names one", ErrInvalidArgument)
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
