package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
)

// Merge adds an operand to key: from then on the key's value is what the merge operator makes
// of its value before and the operand. It costs what a Put costs, as nothing is read; reads,
// and later flushes and compactions, apply the operands. Both slices are copied.
//
// It fails with ErrNeedsNative in LevelDB's format, with ErrNoMergeOperator where no operator
// was named, and as Put does. The operator sees the operand when the key is read: one that
// it cannot apply makes reads of the key fail with ErrMergeFailed, until a Put or Delete.
func (k *keyspace) Merge(key, operand []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(operand) > maxBatchSize-len(key)-64 {
		return tooLarge("key and operand", len(key)+len(operand))
	}
	if err := k.space.Writable(); err != nil {
		return err
	}
	if err := k.space.CheckWrite(base.KindMerge, key, operand); err != nil {
		return err
	}
	if k.space.MergesByReading() {
		b := k.NewBatch()
		b.Merge(key, operand)
		return k.Write(b, mode)
	}
	return k.put(base.KindMerge, key, operand, mode)
}

// checkMerges fails if an operand of a batch, which is valid, is for a keyspace without a
// merge operator. Operations that name no keyspace are on k.
func (k *keyspace) checkMerges(b *Batch) error {
	b.mergesByReading = false
	for it := batchrepr.Read(b.repr); ; {
		id, kind, _, _, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if kind != base.KindMerge {
			continue
		}
		space := k.space
		if id != base.DefaultKeyspace {
			space = k.space.DB.KeyspaceByID(id)
		}
		if space == nil {
			continue // dropped meanwhile
		}
		if err := space.Mergeable(); err != nil {
			return err
		}
		b.mergesByReading = b.mergesByReading || space.MergesByReading()
	}
}
