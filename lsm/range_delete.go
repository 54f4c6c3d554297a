package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
)

// DeleteRange removes all keys from start up to, not including, limit, whether there are any or
// not. It costs as much as one Put, however many keys there are. Later writes of keys in the
// range are not affected. If start is limit it does nothing. It fails as Put does, with
// ErrInvalidArgument if start is behind limit, and with ErrNeedsNative in LevelDB's format. See
// docs/rangedel.md.
func (k *keyspace) DeleteRange(start, limit []byte, mode WriteMode) error {
	if len(start) > maxBatchSize/2 || len(limit) > maxBatchSize-len(start)-64 {
		return tooLarge("start and limit", len(start)+len(limit))
	}
	if err := k.space.Writable(); err != nil {
		return err
	}
	if err := k.space.CheckWrite(base.KindRangeDelete, start, limit); err != nil {
		return err
	}
	err := k.put(base.KindRangeDelete, start, limit, mode)
	if err == nil {
		k.space.RangeDeleted(start, limit)
	}
	return err
}

// DeleteRange removes all keys from start up to, not including, limit; see DB.DeleteRange. Both
// are copied. Puts that follow in the batch stay. If start is behind limit, Write fails with
// ErrInvalidArgument.
func (b *Batch) DeleteRange(start, limit []byte) { b.addRange(BatchIn{b, b.home}, start, limit) }

// DeleteRange is Batch.DeleteRange in the keyspace.
func (i BatchIn) DeleteRange(start, limit []byte) { i.b.addRange(i, start, limit) }

func (b *Batch) addRange(i BatchIn, start, limit []byte) {
	b.ranges = true
	b.add(i.space, base.KindRangeDelete, start, limit)
}

// checkRanges finds range deletes of a batch for k that start behind their limit.
func (k *keyspace) checkRanges(b *Batch) error {
	return k.eachRange(b, func(in *keyspace, start, limit []byte) error { return in.space.CheckRange(start, limit) })
}

// rangesDeleted is called after a batch with range deletes was written.
func (k *keyspace) rangesDeleted(b *Batch) {
	_ = k.eachRange(b, func(in *keyspace, start, limit []byte) error {
		in.space.RangeDeleted(start, limit)
		return nil
	})
}

// eachRange calls f for the range deletes of a batch for k.
func (k *keyspace) eachRange(b *Batch, f func(in *keyspace, start, limit []byte) error) error {
	it := batchrepr.Read(b.repr)
	for {
		id, kind, start, limit, ok := it.Next()
		if !ok {
			return nil
		}
		if kind != base.KindRangeDelete {
			continue
		}
		in := k
		if id != base.DefaultKeyspace && id != k.space.Tree.ID() {
			space := k.space.DB.KeyspaceByID(id)
			if space == nil { // dropped meanwhile
				continue
			}
			in = &keyspace{reader{space: space}}
		}
		if err := f(in, start, limit); err != nil {
			return err
		}
	}
}
