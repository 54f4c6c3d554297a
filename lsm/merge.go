package lsm

import "github.com/loamdb/loam/internal/store"

// Merge adds an operand to key: from then on the key's value is what the merge operator makes
// of its value before and the operand. It costs what a Put costs, as nothing is read; reads,
// and later flushes and compactions, apply the operands. Both slices are copied.
//
// It fails with ErrNeedsNative in LevelDB's format, with ErrNoMergeOperator where no operator
// was named, and as Put does. The operator sees the operand when the key is read: one that
// it cannot apply makes reads of the key fail with ErrMergeFailed, until a Put or Delete.
func (k *keyspace) Merge(key, operand []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(operand) > maxBatchSize-len(key)-64 {
		return store.TooLarge("key and operand", len(key)+len(operand))
	}
	return k.space.Merge(key, operand, mode.commit())
}
