package lsm

import (
	"time"

	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/store/work"
)

// WorkMetrics counts one kind of background work: flushes or compactions.
type WorkMetrics struct {
	Count  int64 // flushes or compactions that ended, failed ones included
	Failed int64 // those that failed
	Moves  int64 // compactions that moved tables without rewriting them
	// TablesDropped is how many tables were deleted without being read, as range deletions
	// cover them or all that was in them had expired.
	TablesDropped uint64
	Expired       uint64        // entries that had expired, in tables that were read
	BytesIn       uint64        // of memtables or input tables
	BytesOut      uint64        // of the tables written
	EntriesIn     uint64        // read
	EntriesOut    uint64        // written; the others had been overwritten or deleted
	Duration      time.Duration // sum, failed ones included
}

// FilterMetrics counts what the compaction filter did.
type FilterMetrics struct {
	Removed uint64 // entries that it removed
	Changed uint64 // entries that it gave another value
	Failed  int64  // compactions that ended with its failure
}

// StallMetrics counts writes that had to wait, for one cause.
type StallMetrics struct {
	Count    int64         // waits
	Duration time.Duration // sum of the waits
}

// LevelMetrics describes one level.
type LevelMetrics struct {
	Files        int           // tables now
	Bytes        uint64        // of these tables
	BytesRead    uint64        // by compactions into the level
	BytesWritten uint64        // by compactions into the level, and flushes
	Duration     time.Duration // of these compactions and flushes
}

// CacheMetrics describes the block cache, which other databases may share.
type CacheMetrics struct {
	Capacity  int64  // bytes
	Used      int64  // bytes of blocks, indexes, filters and metadata
	Hits      uint64 // lookups of a block that was there
	Misses    uint64 // lookups of a block that was not
	Evictions uint64 // blocks dropped to make room
}

// LatencyMetrics summarises a histogram of durations. Its figures are nanoseconds,
// but for Count.
type LatencyMetrics struct {
	Count int64   // durations measured
	Mean  float64 // their average
	P50   int64   // half of them are not above it
	P99   int64   // the 99th percentile
	P999  int64   // the 99.9th percentile
	P9999 int64   // the 99.99th percentile
	Max   int64   // the largest
}

func latencies(h *hist.Histogram) LatencyMetrics {
	return LatencyMetrics{
		Count: int64(h.Count()), Mean: h.Mean(), P50: h.Quantile(0.5), P99: h.Quantile(0.99),
		P999: h.Quantile(0.999), P9999: h.Quantile(0.9999), Max: h.Max(),
	}
}

// Metrics is a snapshot of the database's counters, which begin with 0 at Open, and
// of its state.
type Metrics struct {
	Levels  [7]LevelMetrics // by level; flushes write to level 0
	Flush   WorkMetrics     // flushes of memtables
	Compact WorkMetrics     // compactions, manual ones included
	Filter  FilterMetrics   // of the compaction filter

	// writes that waited, by cause: "memtables", "level0", "debt"
	Stalls           map[string]StallMetrics
	StallTime        time.Duration // sum over the causes
	WriteDelayPerKiB time.Duration // what writers wait now for each KiB, for the cause "debt"
	CompactionDebt   uint64        // bytes that compactions still have to move

	// in memory: the one that takes writes, and those that wait for their flush
	Memtables       int
	MemtableBytes   int64 // memory of these
	MemtableEntries int   // in these

	WALBytesWritten int64          // bytes of batches appended to the log
	WALSync         LatencyMetrics // syncs of the log
	// bytes written to log and tables / bytes of batches; 0 before the first write
	WriteAmplification float64

	Cache            CacheMetrics // the block cache
	TableReaders     int          // open tables
	TableReaderBytes int64        // memory of their indexes, filters and cache slots
	// of table files that are read in place; in the page cache, and counted nowhere else
	MappedBytes     int64
	OpenDescriptors int    // of table files
	PrefixSkips     uint64 // tables that iterators passed over, see Options.PrefixLength
	DirectTables    uint64 // tables that compactions wrote or read past the page cache
	NotDirectTables uint64 // tables for which CompactionDirectIO was not possible
	// memory outside the Go heap, of the whole process: set GOMEMLIMIT with this in mind
	OffHeapBytes int64

	OperandsFolded uint64 // of merges, by reads, flushes and compactions
	MergeFailures  uint64 // calls of merge operators that failed

	Txn         TxnMetrics        // transactions
	Checkpoints CheckpointMetrics // of the database
	Backups     CheckpointMetrics // of the database, by package lsm/backup
	Changes     ChangesMetrics    // feeds, and what is kept for them
	Ingests     IngestMetrics     // of the database

	Snapshots    int    // open snapshots, those of transactions included
	DiskBytes    uint64 // tables of the current version
	LastSequence uint64 // sequence number of the last visible write

	// why the database takes no writes, nil if it does; of a panic, with its stack
	ReadOnly error
	// of the last flush or compaction if it failed and is to be tried again, else nil
	BackgroundError error
	EventsDropped   uint64 // calls of the listener and records of the logger that a slow one missed
}

// The levels of Metrics are those of trees.
var _ = [len(Metrics{}.Levels)]struct{}([manifest.NumLevels]struct{}{})

// Metrics returns the counters; on a closed database, zeros, and ErrClosed in
// ReadOnly. Of a keyspace, memtables, tables and debt are its own; what is counted of
// flushes, compactions, stalls, log and cache is the whole database's.
func (k *keyspace) Metrics() Metrics {
	db, t := k.root.engine, k.space.At(nil)
	state := t.Acquire()
	if state == nil {
		return Metrics{ReadOnly: t.Gone()}
	}
	defer state.Unref()
	parts := db.Parts()
	m := Metrics{
		CompactionDebt: parts.Jobs.Debt(t, state), OffHeapBytes: offheap.InUse(),
		LastSequence:    uint64(parts.Shared.Seqs.Visible()),
		Snapshots:       parts.Shared.Seqs.NumSnapshots(),
		WALBytesWritten: parts.WAL.Bytes(), WALSync: latencies(parts.WAL.Syncs()),
		OperandsFolded: parts.Shared.Folds.Operands.Load(),
		MergeFailures:  parts.Shared.Folds.Failures.Load(),
		EventsDropped:  db.Health().EventsDropped(), DiskBytes: state.Version.Size(),
		Txn: TxnMetrics(db.Txns.Stats()),
	}
	if parts.Opts.ReadOnly || db.Health().Failed() != nil {
		m.ReadOnly = db.Health().Writable()
	}
	status := parts.Jobs.Status()
	m.BackgroundError, m.WriteDelayPerKiB = status.Err, status.DelayPerKiB
	m.Memtables = 1 + len(state.Sealed)
	m.MemtableBytes, m.MemtableEntries = state.Mem.MemoryUsage(), state.Mem.Len()
	for _, s := range state.Sealed {
		m.MemtableBytes += s.Mem.MemoryUsage()
		m.MemtableEntries += s.Mem.Len()
	}
	c := parts.Cache.Stats()
	m.Cache = CacheMetrics{Capacity: c.Capacity, Used: c.Used, Hits: uint64(c.Hits),
		Misses: uint64(c.Misses), Evictions: uint64(c.Evictions)}
	checkpoints, backups := db.Copies.Stats()
	m.Checkpoints, m.Backups = CheckpointMetrics(checkpoints), CheckpointMetrics(backups)
	m.Changes = changesMetrics(db)
	m.Ingests = IngestMetrics(db.IngestStats())
	f := parts.Shared.Files.Stats()
	m.TableReaders, m.TableReaderBytes, m.MappedBytes, m.OpenDescriptors =
		f.Readers, f.ReaderBytes, f.MappedBytes, f.Descriptors
	m.PrefixSkips, m.DirectTables, m.NotDirectTables = f.Skipped, f.Direct, f.NotDirect
	m.addWork(parts.Jobs.Counters())
	for i := range state.Version.Levels {
		l := &state.Version.Levels[i]
		m.Levels[i].Files, m.Levels[i].Bytes = len(l.Files), l.Size
	}
	if m.WALBytesWritten > 0 {
		written := float64(m.WALBytesWritten) + float64(m.Flush.BytesOut) +
			float64(m.Compact.BytesOut)
		m.WriteAmplification = written / float64(m.WALBytesWritten)
	}
	return m
}

// addWork fills in what the scheduler counts.
func (m *Metrics) addWork(c work.Counters) {
	m.Flush, m.Compact = WorkMetrics(c.Flushes), WorkMetrics(c.Compactions)
	m.Filter = FilterMetrics(c.Filter)
	m.Stalls = make(map[string]StallMetrics, len(c.Stalls))
	for cause, stall := range c.Stalls {
		m.Stalls[cause] = StallMetrics(stall)
		m.StallTime += stall.Duration
	}
	for i, l := range c.Levels {
		m.Levels[i].BytesRead, m.Levels[i].BytesWritten, m.Levels[i].Duration =
			l.BytesRead, l.BytesWritten, l.Duration
	}
}

// Property answers LevelDB's properties: "leveldb.num-files-at-level<N>", "leveldb.stats",
// "leveldb.sstables", "leveldb.approximate-memory-usage"; each also under "loam.", and without a
// prefix. ok is false for an unknown name and on a closed database.
func (k *keyspace) Property(name string) (value string, ok bool) { return k.space.Property(name) }

// Range is the keys from Start up to, not including, Limit.
type Range struct {
	Start []byte // the first key; nil: no bound
	Limit []byte // the first key behind the range; nil: no bound
}

// ApproximateSizes estimates the bytes on disk that hold each range's data, not
// counting what is still in memtables. sizes has one figure for each range. Tables
// at the ends of a range that are not open are opened, which may fail: with
// ErrCorruption, ErrTooManyFiles or an error of the file system. On a closed
// database it fails with ErrClosed.
func (k *keyspace) ApproximateSizes(ranges []Range) (sizes []uint64, err error) {
	t := k.space.At(nil)
	v := t.Acquire()
	if v == nil {
		return nil, t.Gone()
	}
	defer v.Unref()
	defer k.root.engine.Health().CatchPanic(&err)
	sizes = make([]uint64, len(ranges))
	for i, r := range ranges {
		if sizes[i], err = v.DiskSize(r.Start, r.Limit); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}
