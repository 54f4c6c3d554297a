package lsm

import (
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/write"
)

// WriteMode says what a write waits for. Modes are joined with |, as in Sync|NoStall.
type WriteMode uint8

const (
	// NoSync returns when the write is in the kernel: it survives the death of
	// the process, not that of the machine. A power cut loses at most a suffix
	// of the unsynced writes, never one in the middle.
	NoSync WriteMode = 0
	// Sync returns when the write, and every write before it, is on disk.
	Sync WriteMode = 1
	// NoStall fails with ErrBusy where the write would have to wait for flushes or compactions.
	NoStall WriteMode = 2
)

// The modes are those of package write.
var (
	_ = [1]struct{}{}[Sync-WriteMode(write.Sync)]
	_ = [1]struct{}{}[NoStall-WriteMode(write.NoStall)]
)

// commit leaves out what no mode is.
func (m WriteMode) commit() write.Mode { return write.Mode(m & (Sync | NoStall)) }

// maxBatchSize bounds the encoded size of a batch in bytes, and so of a key or value.
const maxBatchSize = batchrepr.MaxLen

// Put sets key to value. Both are copied.
//
// Writes fail with ErrClosed from the beginning of Close on, with ErrReadOnly when the database was
// opened so or a failed write made it so, with ErrTooLarge above the limit of a batch, with
// ErrNoKeyspace after DropKeyspace, and with ErrBusy where NoStall forbids a wait. After
// ErrNoSpace, ErrTooManyFiles or ErrNoMemory the write is not visible and later ones may succeed;
// the same holds while flushes or compactions fail and the memtables or level 0 are full. Any other
// failure of the log makes the database read-only.
func (k *keyspace) Put(key, value []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(value) > maxBatchSize-len(key)-64 {
		return store.TooLarge("key and value", len(key)+len(value))
	}
	if ttl := k.space.TTL(); ttl > 0 {
		return k.PutTTL(key, value, time.Duration(ttl)*time.Second, mode)
	}
	return k.space.Put(base.KindSet, key, value, mode.commit())
}

// Delete removes key, whether it exists or not. It fails as Put does.
func (k *keyspace) Delete(key []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 {
		return store.TooLarge("key", len(key))
	}
	return k.space.Put(base.KindDelete, key, nil, mode.commit())
}

// Write makes all operations of the batch take effect together. The batch may be larger than the
// write buffer and may be reused afterwards; it must not be changed meanwhile. An empty batch with
// Sync makes all earlier writes durable. It fails as Put does, with ErrTooLarge if an operation did
// not fit into the batch, with ErrInvalidArgument if b is nil or names a keyspace of another
// database, and with ErrNoKeyspace if it names one that was dropped.
//
// Operations of a batch that the function NewBatch made go to the keyspace on which Write is
// called, unless Batch.In names another one. Outside the default keyspace Write copies such a
// batch; it does not copy one made by the keyspace's own NewBatch.
func (k *keyspace) Write(b *Batch, mode WriteMode) error {
	if b == nil {
		return base.Invalidf("Write needs a batch")
	}
	return k.space.Commit(&b.b, mode.commit())
}

// WriteBytes is Write for a batch in wire form (Batch.Bytes), which
// may come from outside: tags, lengths and count are checked first, and a defect is
// ErrInvalidArgument; a keyspace that does not exist is ErrNoKeyspace. The
// sequence number in its header is overwritten; nothing is copied or retained.
func (k *keyspace) WriteBytes(repr []byte, mode WriteMode) error {
	b, err := k.space.BatchOf(repr)
	if err != nil {
		return err
	}
	return k.space.Commit(&b, mode.commit())
}
