package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store"
)

// DeleteRange removes all keys from start up to, not including, limit, whether there are any or
// not. It costs as much as one Put, however many keys there are. Later writes of keys in the
// range are not affected. A nil limit is the empty key, not the end. If start is limit it does
// nothing. It fails as Put does, with ErrInvalidArgument if start is behind limit, and with
// ErrNeedsNative in LevelDB's format. See docs/rangedel.md.
func (k *keyspace) DeleteRange(start, limit []byte, mode WriteMode) error {
	if len(start) > maxBatchSize/2 || len(limit) > maxBatchSize-len(start)-64 {
		return store.TooLarge("start and limit", len(start)+len(limit))
	}
	return k.space.DeleteRange(start, limit, mode.commit())
}

// DeleteRange removes all keys from start up to, not including, limit; see DB.DeleteRange. Both
// are copied. Puts that follow in the batch stay. If start is behind limit, Write fails with
// ErrInvalidArgument.
func (b *Batch) DeleteRange(start, limit []byte) { b.b.Add(base.KindRangeDelete, start, limit) }

// DeleteRange is Batch.DeleteRange in the keyspace.
func (i BatchIn) DeleteRange(start, limit []byte) {
	i.b.b.AddIn(i.space, base.KindRangeDelete, start, limit)
}
