package lsm

import (
	"cmp"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store"
)

// PutTTL is Put of a value that expires: after ttl, which is rounded up to seconds, the key has
// no value, as if it had been deleted. A later write replaces value and time; merges keep the
// later deadline. It fails as Put does, with ErrInvalidArgument if ttl is not positive, and with
// ErrNeedsNative in LevelDB's format. See docs/ttl.md.
func (k *keyspace) PutTTL(key, value []byte, ttl time.Duration, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(value) > maxBatchSize-len(key)-64 {
		return store.TooLarge("key and value", len(key)+len(value))
	}
	seconds, bad := store.Seconds(ttl)
	if err := cmp.Or(k.space.Writable(), bad); err != nil {
		return err
	}
	return k.space.PutTTL(key, value, seconds, mode.commit())
}

// TTL returns how long key keeps its value from now on; expires is false if that is for ever. In a
// snapshot a value may stay visible after its deadline: left is 0 then. It fails as Get does, with
// ErrNotFound for a missing key.
func (r *reader) TTL(key []byte) (left time.Duration, expires bool, err error) {
	return r.of.TTLOf(key, r.at)
}

// PutTTL is Put of a value that expires ttl after the batch is written; see DB.PutTTL. If ttl
// is not positive, Write fails with ErrInvalidArgument.
func (b *Batch) PutTTL(key, value []byte, ttl time.Duration) {
	if value, ok := b.expiring(value, ttl); ok {
		b.b.Add(base.KindSetExpiring, key, value)
	}
}

// PutTTL is Batch.PutTTL in the keyspace.
func (i BatchIn) PutTTL(key, value []byte, ttl time.Duration) {
	if value, ok := i.b.expiring(value, ttl); ok {
		i.b.b.AddIn(i.space, base.KindSetExpiring, key, value)
	}
}

// expiring is a value with a time to live behind it. It reports false if Write refuses that.
func (b *Batch) expiring(value []byte, ttl time.Duration) ([]byte, bool) {
	seconds, err := store.Seconds(ttl)
	if err != nil && b.b.Err == nil {
		b.b.Err = err
	}
	return base.AppendDeadline(append(make([]byte, 0, len(value)+base.DeadlineLen), value...),
		base.Relative|seconds), err == nil
}

// PutTTL is Put of a value that expires ttl after the commit; see DB.PutTTL.
func (tx *Txn) PutTTL(key, value []byte, ttl time.Duration) error {
	seconds, bad := store.Seconds(ttl)
	if err := cmp.Or(tx.txn.MayWrite(tx.space), bad); err != nil {
		return err
	}
	return tx.txn.PutTTL(tx.space, key, value, seconds)
}
