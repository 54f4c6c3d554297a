package lsm

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/ingest"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TableWriter writes a table outside of a database, for DB.Ingest. It is used by one goroutine at a
// time. Make one with NewTableWriter. After Finish or Close its methods fail with ErrClosed.
//
// A failure ends the table, and Finish fails with the same error, except where a method says
// otherwise.
type TableWriter struct{ w *ingest.TableWriter }

// Put adds a value; key and value are copied. Keys must ascend strictly in the order of the
// comparer: any other key is ErrInvalidArgument, and the table stays as it was. It fails with
// ErrTooLarge, a shortage or an error of the file system.
func (w *TableWriter) Put(key, value []byte) error { return w.w.Put(key, value) }

// PutTTL is Put of a value that expires ttl from now, see DB.PutTTL. It also fails with
// ErrNeedsNative in LevelDB's format and with ErrInvalidArgument for a ttl of 0 or less; then the
// table stays as it was.
func (w *TableWriter) PutTTL(key, value []byte, ttl time.Duration) error {
	return w.w.PutTTL(key, value, ttl)
}

// Delete adds a deletion of the value that the database has when the table is ingested. Keys ascend
// as for Put, and it fails as Put does.
func (w *TableWriter) Delete(key []byte) error { return w.w.Delete(key) }

// DeleteRange deletes the keys from start up to, not including, limit that the database has when
// the table is ingested; it deletes no entry of tables that are ingested together. Ranges come in
// any order. It fails with ErrNeedsNative in LevelDB's format, and as Put does.
func (w *TableWriter) DeleteRange(start, limit []byte) error {
	return w.w.DeleteRange(start, limit)
}

// EstimatedSize is the length of the file so far, in bytes.
func (w *TableWriter) EstimatedSize() uint64 { return w.w.EstimatedSize() }

// Finish makes the table durable and ends it. A table without entries is ErrInvalidArgument. After
// a failure the file is removed.
func (w *TableWriter) Finish() error { return w.w.Finish() }

// Close gives up a table that was not finished, and removes its file. After Finish it does nothing.
func (w *TableWriter) Close() error { return w.w.Close() }

// BulkLoader loads entries as DB.BulkLoad does, for programs that push them one by one. It is used
// by one goroutine at a time. Make one with DB.BulkLoader, and end it with Finish or Close.
type BulkLoader struct{ l *ingest.BulkLoader }

// Put adds an entry, in any order. Of entries with the same key the last one counts. key and value
// are copied. It fails with ErrTooLarge, with ErrClosed after the end of the load, with a shortage
// or an error of the file system, and with ErrClosed after the end of the database, of which it
// knows when its buffer is full; Finish always does.
func (l *BulkLoader) Put(key, value []byte) error { return l.l.Put(key, value) }

// Finish makes the entries durable in the database, all at once, and ends the load whether it fails
// or not. It fails as BulkLoad does.
func (l *BulkLoader) Finish(ctx context.Context) error { return l.l.Finish(ctx) }

// Close gives up a load that was not finished, and frees its memory and files. After Finish it does
// nothing. The error is always nil.
func (l *BulkLoader) Close() error { return l.l.Close() }

// NewTableWriter creates the file of a table, which must not exist. Format and Comparer of o must
// be those of the database or keyspace that is to ingest the table. It also uses FS, Clock,
// Encryption, and the options of compression, filters and blocks. A nil o means the defaults. It
// fails with ErrExists if the file is there, with ErrInvalidArgument for options that Open refuses,
// and with the errors of the file system.
func NewTableWriter(path string, o *Options) (*TableWriter, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	fsys := vfs.FS(opts.FS)
	if keys := opts.keys(); keys != nil {
		if opts.Format == FormatLevelDB {
			return nil, fmt.Errorf("table writer: %w", base.NeedsNative("encryption"))
		}
		fsys = seal.Over(fsys, "", keys)
	}
	w, err := ingest.NewTableWriter(fsys, path, opts.tables((*base.Comparer)(opts.Comparer)),
		opts.Clock)
	if err != nil {
		return nil, fmt.Errorf("table writer: %w", err)
	}
	return &TableWriter{w}, nil
}

// IngestOptions says how tables are ingested. A nil *IngestOptions means the defaults.
type IngestOptions struct {
	// Move removes the files of the tables once their entries are durable in the database; files
	// that cannot be removed are reported to the Logger. The default, false, leaves them. They may
	// be deleted then, but not changed: they share their bytes with the database.
	Move bool
	// Excise deletes what the keyspace has in a range of keys, in the same step: readers see either
	// what was there before or what the tables have. All keys of the tables must be in the range.
	// Unlike elsewhere, a nil bound of the Range is the empty key, not "no bound". The default,
	// nil, deletes nothing.
	Excise *Range
}

// Ingest takes tables that a TableWriter wrote into the keyspace, all or none of them. Their
// entries are newer than all entries of the keyspace, invisible to open snapshots and iterators,
// and durable when Ingest returns. A nil o means the defaults.
//
// The files are read from end to end first, and get a second name in the database's directory;
// where links are impossible, as on another file system, they are copied. Ingest does not change
// the files; Move removes them. A table goes to the deepest level above which nothing is in its
// range; memtables in its range are flushed first.
//
// It fails as a write does, with ErrInvalidArgument if tables overlap each other, are of the other
// format or are not a TableWriter's, with ErrComparerMismatch, with ErrCorruption (a damaged
// table), and with ErrNeedsNative in LevelDB's format where the range of a table overlaps that of
// one of the database, or a snapshot or transaction is open. After a failure the database has none
// of the tables, with one exception: after ErrNoSpace and a crash before there was space again, it
// may have all.
func (k *keyspace) Ingest(ctx context.Context, o *IngestOptions, paths ...string) error {
	if ctx == nil {
		return base.Invalidf("Ingest needs a context")
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
	// Memory is the size of the sort buffer in bytes: entries that fill it are written to the
	// database's directory as a sorted run. More than 2 GiB counts as 2 GiB, and very little as
	// some KiB. Below 0 it is ErrInvalidArgument. The default, 0, is 4 * Options.WriteBufferSize.
	Memory int64
}

// BulkLoad puts all entries of a sequence into the keyspace, in any order and all at once: it sorts
// them, writes tables, and ingests these as Ingest does. Of entries with the same key the last one
// counts. Values live for ever, whatever DefaultTTL says. The sequence may reuse key and value. A
// nil o means the defaults.
//
// Its memory is bounded by BulkLoadOptions.Memory; entries beyond that are written to the
// database's directory as sorted runs meanwhile. Into a range without entries it takes less time
// than Put, and leaves nothing to compact.
//
// It ends with ctx's error when ctx is done, with ErrClosed by Close, and otherwise fails as Ingest
// does.
func (k *keyspace) BulkLoad(ctx context.Context, entries iter.Seq2[[]byte, []byte],
	o *BulkLoadOptions) error {
	if ctx == nil || entries == nil {
		return base.Invalidf("BulkLoad needs a context and a sequence")
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

// BulkLoader begins a bulk load of entries that the program pushes with BulkLoader.Put. A nil o
// means the defaults. It fails as a write does.
func (k *keyspace) BulkLoader(o *BulkLoadOptions) (*BulkLoader, error) {
	memory, err := k.loadMemory(o)
	if err != nil {
		return nil, err
	}
	l, err := ingest.NewBulkLoader(k.space, memory)
	if err != nil {
		return nil, err
	}
	return &BulkLoader{l}, nil
}

func (k *keyspace) loadMemory(o *BulkLoadOptions) (int, error) {
	switch {
	case o == nil || o.Memory == 0:
		return ingest.Memory(k.root.engine), nil
	case o.Memory < 0:
		return 0, base.Invalidf("BulkLoadOptions.Memory is %d, want 0 or more bytes", o.Memory)
	}
	return int(min(o.Memory, ingest.MaxMemory)), nil
}

// IngestMetrics counts ingests and loads.
type IngestMetrics struct {
	// Count is the number of ingests and loads that ended, failed ones included.
	Count  int64
	Failed int64  // Failed is the number of those that failed.
	Tables uint64 // Tables is the number of tables that came into the database.
	Bytes  uint64 // Bytes is the size of these tables.
	// Copied is the number of tables that were copied, because a link was not possible.
	Copied uint64
	Loaded uint64 // Loaded is the number of entries that loads brought.
	// Runs is the number of sorted runs that loads wrote, as the entries did not fit into memory.
	Runs uint64
}
