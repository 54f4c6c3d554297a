package lsm

import (
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/commit"
)

// WriteMode says what a write waits for. Modes are joined with |.
type WriteMode uint8

const (
	// NoSync returns when the write is in the kernel: it survives the death of
	// the process, not that of the machine. A power cut loses at most a suffix
	// of the unsynced writes, never one in the middle.
	NoSync WriteMode = 0
	// Sync returns when the write, and every write before it, is on disk.
	Sync = WriteMode(commit.Sync)
	// NoStall fails with ErrBusy where the write would have to wait for
	// flushes or compactions.
	NoStall = WriteMode(commit.NoStall)
)

// Put sets key to value. Both are copied.
//
// Writes fail with ErrClosed from the beginning of Close on, with ErrReadOnly when
// the database was opened so or a failed write made it so, with ErrTooLarge above
// the limit of a batch, and with ErrBusy where NoStall forbids a wait. After ErrNoSpace,
// ErrTooManyFiles or ErrNoMemory the write is not visible and later ones may succeed;
// so it is when flushes or compactions fail and the memtables or level 0 are full.
// Any other failure of the log makes the database read-only.
func (k *keyspace) Put(key, value []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(value) > maxBatchSize-len(key)-64 {
		return tooLarge("key and value", len(key)+len(value))
	}
	if ttl := k.space.TTL(); ttl > 0 {
		return k.PutTTL(key, value, time.Duration(ttl)*time.Second, mode)
	}
	return k.put(base.KindSet, key, value, mode)
}

// Delete removes key, whether it exists or not. It fails as Put does.
func (k *keyspace) Delete(key []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 {
		return tooLarge("key", len(key))
	}
	return k.put(base.KindDelete, key, nil, mode)
}

// put writes one operation of a kind that the format of the database has.
func (k *keyspace) put(kind base.Kind, key, value []byte, mode WriteMode) error {
	if err := k.space.Writable(); err != nil {
		return err
	}
	k.space.Tree.PrefetchWrite(key)
	return k.space.DB.Pipeline.Put(k.space.Tree.ID(), kind, key, value, commit.Mode(mode&(Sync|NoStall)))
}

// Write makes all operations of the batch take effect together. The batch may
// be larger than the write buffer and may be reused afterwards; it must not be
// changed meanwhile. An empty batch with Sync makes all earlier writes durable. It
// fails as Put does, with ErrTooLarge if an operation did not fit into the batch, with
// ErrInvalidArgument if b is nil or names a keyspace of another database, and with
// ErrNoKeyspace if it names one that was dropped.
//
// Write of a Keyspace takes operations that name no keyspace for its own. So does a batch
// of its NewBatch, which saves the copy that Write makes then.
func (k *keyspace) Write(b *Batch, mode WriteMode) error {
	if b == nil {
		return fmt.Errorf("%w: Write needs a batch", ErrInvalidArgument)
	}
	if b.err != nil {
		return b.err
	}
	db := k.space.DB
	if err := db.Health.Writable(); err != nil {
		return err
	}
	if err := db.CheckKeyspaces(b.spaces); err != nil {
		return err
	}
	if b.beyond != 0 && !db.Native() {
		return base.NeedsNative("a " + b.beyond.String())
	}
	if b.beyond != 0 {
		if err := k.checkMerges(b); err != nil {
			return err
		}
	}
	if b.ranges {
		if err := k.checkRanges(b); err != nil {
			return err
		}
	}
	if b.Count() == 0 && mode&Sync == 0 {
		return nil
	}
	var err error
	if expiring := b.expires || b.mergesByReading || db.HasDefaultTTLs(); expiring || b.plain && k.space.ID() != base.DefaultKeyspace {
		err = k.space.Write(b.Bytes(), expiring, commit.Mode(mode&(Sync|NoStall)))
	} else {
		err = db.Pipeline.Commit(b.Bytes(), commit.Mode(mode&(Sync|NoStall)))
	}
	if b.ranges && err == nil {
		k.rangesDeleted(b)
	}
	return err
}

// WriteBytes is Write for a batch in wire form (Batch.Bytes), which
// may come from outside: tags, lengths and count are checked first, and
// ErrInvalidArgument says what is wrong; a keyspace that does not exist is ErrNoKeyspace. The
// sequence number in its header is overwritten; nothing is copied or retained.
func (k *keyspace) WriteBytes(repr []byte, mode WriteMode) error {
	kinds, err := k.validate(repr)
	if err != nil {
		return err
	}
	if len(repr) > maxBatchSize {
		return tooLarge("batch", len(repr))
	}
	return k.Write(&Batch{repr: repr, plain: true, beyond: kinds.BeyondLevelDB(), ranges: kinds>>base.KindRangeDelete&1 != 0, expires: kinds>>base.KindSetExpiring&1 != 0}, mode)
}

// validate says what of a batch in wire form the database cannot take. kinds are those of its
// operations.
func (k *keyspace) validate(repr []byte) (kinds batchrepr.Kinds, err error) {
	db := k.space.DB
	if !db.Native() {
		if err = batchrepr.Validate(repr, nil); err == nil {
			return 0, nil
		}
		if all, beyond := batchrepr.ValidateKinds(repr, func(base.KeyspaceID) bool { return true }); beyond == nil {
			if kind := all.BeyondLevelDB(); kind != 0 {
				return 0, base.NeedsNative("a " + kind.String())
			}
			return 0, base.NeedsNative("a keyspace")
		}
		return 0, fmt.Errorf("%w: batch bytes: %w", ErrInvalidArgument, err)
	}
	last, missing := base.DefaultKeyspace, false
	kinds, err = batchrepr.ValidateKinds(repr, func(id base.KeyspaceID) bool {
		if id != last {
			missing = db.KeyspaceByID(id) == nil
			last = id
		}
		return !missing
	})
	switch {
	case err == nil:
		return kinds, nil
	case missing:
		return 0, fmt.Errorf("%w: number %d, which the batch names", ErrNoKeyspace, last)
	}
	return 0, fmt.Errorf("%w: batch bytes: %w", ErrInvalidArgument, err)
}
