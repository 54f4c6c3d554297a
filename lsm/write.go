package lsm

import (
	"fmt"

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
	db := k.space.DB
	if err := db.Health.Writable(); err != nil {
		return err
	}
	return db.Pipeline.Put(key, value, commit.Mode(mode&(Sync|NoStall)))
}

// Delete removes key, whether it exists or not. It fails as Put does.
func (k *keyspace) Delete(key []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 {
		return tooLarge("key", len(key))
	}
	db := k.space.DB
	if err := db.Health.Writable(); err != nil {
		return err
	}
	return db.Pipeline.Delete(key, commit.Mode(mode&(Sync|NoStall)))
}

// Write makes all operations of the batch take effect together. The batch may
// be larger than the write buffer and may be reused afterwards; it must not be
// changed meanwhile. An empty batch with Sync makes all earlier writes durable. It
// fails as Put does, with ErrTooLarge if an operation did not fit into the batch, and
// with ErrInvalidArgument if b is nil.
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
	if b.Count() == 0 && mode&Sync == 0 {
		return nil
	}
	return db.Pipeline.Commit(b.Bytes(), commit.Mode(mode&(Sync|NoStall)))
}

// WriteBytes is Write for a batch in wire form (Batch.Bytes, LevelDB's), which
// may come from outside: tags, lengths and count are checked first, and
// ErrInvalidArgument says what is wrong. The sequence number in its header is
// overwritten; nothing is copied or retained.
func (k *keyspace) WriteBytes(repr []byte, mode WriteMode) error {
	if err := batchrepr.Validate(repr, nil); err != nil {
		return fmt.Errorf("%w: batch bytes: %w", ErrInvalidArgument, err)
	}
	if len(repr) > maxBatchSize {
		return tooLarge("batch", len(repr))
	}
	return k.Write(&Batch{repr: repr}, mode)
}
