package lsm

import (
	"context"
	"fmt"
	"iter"

	"github.com/loamdb/loam/internal/ingest"
)

// TableWriter writes a table outside of a database, for Ingest: Put, PutTTL and Delete take keys in
// ascending order, each once; DeleteRange takes ranges in any order. Finish makes the table durable,
// Close gives up one that was not finished and removes its file, and EstimatedSize tells how long the file is
// so far. It is used by one goroutine at a time. Make one with NewTableWriter.
type TableWriter = ingest.TableWriter

// BulkLoader is BulkLoad for entries that are pushed: Put takes them in any order, Finish makes them
// durable in the database, all at once, and Close gives up a load that was not finished. It is used by
// one goroutine at a time. Make one with DB.BulkLoader.
type BulkLoader = ingest.BulkLoader

// NewTableWriter creates the file of a table, which must not exist. Of the options, a nil o being the
// defaults, it takes FS, Clock, and what says how tables are written: Format and Comparer, which must be
// those of the database or keyspace that is to ingest the table, compression, filter and block sizes.
func NewTableWriter(path string, o *Options) (*TableWriter, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	w, err := ingest.NewTableWriter(opts.FS, path, opts.tables(opts.Comparer), opts.Clock)
	if err != nil {
		return nil, fmt.Errorf("table writer: %w", err)
	}
	return w, nil
}

// IngestOptions says how tables are ingested. A nil *IngestOptions means the defaults.
type IngestOptions struct {
	// Move removes the files of the tables when their entries are durable in the database; of one that
	// cannot be removed the Logger is told. The default, false, leaves them: then they share their bytes
	// with the database, so that they must not be changed; they may be deleted.
	Move bool
	// Excise deletes what the keyspace has in a range of keys, in the same step: readers see either
	// what was there before or what the tables have. All keys of the tables must be in the range. The
	// default, nil, deletes nothing.
	Excise *Range
}

// Ingest takes tables that a TableWriter wrote into the keyspace, all or none of them. Their entries are newer
// than all that is there, invisible to open snapshots and iterators, and durable when Ingest returns.
// The files are read from end to end first, and get a second name in the database's directory; where
// links do not reach, as on another file system, they are copied. They stay unharmed. Tables go as deep
// in the tree as nothing in their range lies above; memtables in their range are flushed first.
//
// It fails with ErrInvalidArgument if tables overlap each other, are of the other format or are no
// TableWriter's, with ErrComparerMismatch, with ErrCorruption (a damaged table), with ErrNeedsNative in
// LevelDB's format where the range of a table overlaps that of one of the database, or a snapshot or
// transaction is open, and as a write does. After any failure the database has none of the tables; only after one
// for want of space, and a crash before there was space again, it may have all.
func (k *keyspace) Ingest(ctx context.Context, o *IngestOptions, paths ...string) error {
	if ctx == nil {
		return fmt.Errorf("%w: Ingest needs a context", ErrInvalidArgument)
	}
	how := ingest.Options{}
	if o != nil {
		how.Move = o.Move
	}
	if o != nil && o.Excise != nil {
		how.Excise, how.Start, how.Limit = true, o.Excise.Start, o.Excise.Limit
	}
	if err := ingest.Ingest(ctx, k.space, paths, how); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	return nil
}

// BulkLoadOptions says how entries are loaded. A nil *BulkLoadOptions means the defaults.
type BulkLoadOptions struct {
	// Memory is how many bytes of memory entries take before they are written to the database's
	// directory as a sorted run. The default, 0, is 4 * Options.WriteBufferSize; the most is 2 GiB, the least
	// some KiB.
	Memory int64
}

// BulkLoad puts all entries of a sequence into the keyspace, in any order: it sorts them, writes tables,
// and takes these in as Ingest does, all at once. Of entries with the same key the last one counts. Its
// memory is bounded by BulkLoadOptions.Memory; what does not fit is written to the database's directory as
// sorted runs meanwhile. Into a range without entries it takes less time than Put, and leaves nothing to
// compact. Values live for ever, whatever DefaultTTL says. The sequence may reuse key and value.
//
// It ends with ctx's error when ctx is done, with ErrClosed by Close, and otherwise fails as Ingest does.
func (k *keyspace) BulkLoad(ctx context.Context, entries iter.Seq2[[]byte, []byte], o *BulkLoadOptions) error {
	if ctx == nil || entries == nil {
		return fmt.Errorf("%w: BulkLoad needs a context and a sequence", ErrInvalidArgument)
	}
	memory, err := k.loadMemory(o)
	if err == nil {
		err = ingest.BulkLoad(ctx, k.space, entries, memory)
	}
	if err != nil {
		return fmt.Errorf("bulk load: %w", err)
	}
	return nil
}

// BulkLoader begins a BulkLoad of entries that are pushed. It fails as a write does.
func (k *keyspace) BulkLoader(o *BulkLoadOptions) (*BulkLoader, error) {
	memory, err := k.loadMemory(o)
	if err != nil {
		return nil, err
	}
	return ingest.NewBulkLoader(k.space, memory)
}

func (k *keyspace) loadMemory(o *BulkLoadOptions) (int, error) {
	switch {
	case o == nil || o.Memory == 0:
		return ingest.Memory(k.space.DB), nil
	case o.Memory < 0:
		return 0, fmt.Errorf("%w: BulkLoadOptions.Memory is %d, want 0 or more bytes", ErrInvalidArgument, o.Memory)
	}
	return int(min(o.Memory, ingest.MaxMemory)), nil
}

// IngestMetrics counts ingests and loads.
type IngestMetrics struct {
	Count  int64  // ingests and loads that ended, failed ones included
	Failed int64  // those that failed
	Tables uint64 // tables that they brought
	Bytes  uint64 // of these tables
	Copied uint64 // tables that were copied, because a link was not possible
	Loaded uint64 // entries that loads brought
	Runs   uint64 // sorted runs that loads wrote, because the entries did not fit into memory
}
