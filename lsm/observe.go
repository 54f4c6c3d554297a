package lsm

import (
	"encoding/json"
	"time"

	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/base/plain"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/work"
)

// WorkMetrics counts one kind of background work: flushes or compactions.
type WorkMetrics struct {
	// Count is the number of flushes or compactions that ended, failed ones included.
	Count  int64
	Failed int64 // Failed is the number of those that failed.
	// Moves is the number of compactions that moved tables without rewriting them.
	Moves int64
	// TablesDropped is the number of tables that were deleted unread: range deletions covered them,
	// or all their entries had expired.
	TablesDropped uint64
	// Expired is the number of expired entries that were dropped from tables that were read.
	Expired   uint64
	BytesIn   uint64 // BytesIn is the bytes of memtables or input tables.
	BytesOut  uint64 // BytesOut is the bytes of the tables and value files written.
	EntriesIn uint64 // EntriesIn is the number of entries read.
	// EntriesOut is the number of entries written; the others had been overwritten or deleted.
	EntriesOut uint64
	Duration   time.Duration // Duration is the sum of the durations, failed ones included.
}

// FilterMetrics counts what the compaction filter did.
type FilterMetrics struct {
	Removed uint64 // Removed is the number of entries that the filter removed.
	Changed uint64 // Changed is the number of entries whose value it replaced.
	Failed  int64  // Failed is the number of compactions that failed because of it.
}

// StallMetrics counts writes that had to wait, for one cause.
type StallMetrics struct {
	Count    int64         // Count is the number of waits.
	Duration time.Duration // Duration is the sum of their durations.
}

// LevelMetrics describes one level of the tree of tables.
type LevelMetrics struct {
	Files     int    // Files is the number of tables now.
	Bytes     uint64 // Bytes is the size of these tables.
	BytesRead uint64 // BytesRead is what compactions into the level read.
	// BytesWritten is what compactions into the level, and flushes, wrote.
	BytesWritten uint64
	// Duration is the sum of the durations of these compactions and flushes.
	Duration time.Duration
}

// CacheMetrics describes the block cache, which other databases may share.
type CacheMetrics struct {
	Capacity  int64  // Capacity is the limit in bytes.
	Used      int64  // Used is the bytes of blocks, indexes, filters and metadata.
	Hits      uint64 // Hits is the number of lookups that found their block.
	Misses    uint64 // Misses is the number of lookups that did not.
	Evictions uint64 // Evictions is the number of blocks dropped to make room.
}

// LatencyMetrics summarises a histogram of durations. All fields except Count are in nanoseconds.
type LatencyMetrics struct {
	Count int64   // Count is the number of durations measured.
	Mean  float64 // Mean is their average.
	P50   int64   // P50 is the median: half of the durations are not above it.
	P99   int64   // P99 is the 99th percentile.
	P999  int64   // P999 is the 99.9th percentile.
	P9999 int64   // P9999 is the 99.99th percentile.
	Max   int64   // Max is the longest duration.
}

// OperationMetrics counts one kind of reads or writes.
type OperationMetrics struct {
	Count   uint64         // Count is the number of calls.
	Latency LatencyMetrics // Latency has the durations of a sample of them.
}

// EmptyRangeMetrics describes what iterators pass over, and the known-empty ranges by which they go
// past deleted entries together.
type EmptyRangeMetrics struct {
	Held int    // Held is the number of ranges that are known now.
	Hits uint64 // Hits is how often an iterator went past one.
	Cuts uint64 // Cuts is how often a write took its key out of one.
	// Scouts is how often Loam itself looked for ranges after deletions.
	Scouts uint64
	// DeadEntries is the number of deleted and expired entries that iterators passed over one by
	// one, less up to 64 for each move.
	DeadEntries uint64
}

// latencies summarises h; nil is empty.
func latencies(h *hist.Histogram) LatencyMetrics {
	if h == nil {
		return LatencyMetrics{}
	}
	return LatencyMetrics{
		Count: int64(h.Count()), Mean: h.Mean(), P50: h.Quantile(0.5), P99: h.Quantile(0.99),
		P999: h.Quantile(0.999), P9999: h.Quantile(0.9999), Max: h.Max(),
	}
}

// ValueMetrics describes the values that are stored in logs and value files, see
// Options.LargeValue.
type ValueMetrics struct {
	Logs  int    // Logs is the number of logs that tables refer to.
	Files int    // Files is the number of value files that tables refer to.
	Bytes uint64 // Bytes is the size of the values that tables refer to.
	// DiskBytes is the size of these files, and of these logs except those with unflushed entries.
	DiskBytes uint64
	Reads     uint64 // Reads is the number of values read from logs and value files.
	BytesRead uint64 // BytesRead is the size of these values.
	// Relocated is the number of values that compactions copied into value files.
	Relocated      uint64
	RelocatedBytes uint64 // RelocatedBytes is the size of these values.
}

// Metrics is the state of a database or keyspace at one moment, and what happened since Open. The
// metrics of a keyspace have its own memtables, levels, debt, DiskBytes and EmptyRanges.Held;
// everything else concerns the whole database.
type Metrics struct {
	// Gets counts calls of Get, TryGet, GetNoFill and Has; the duration of one in 128 is taken.
	Gets OperationMetrics
	// MultiGets counts calls of MultiGet; the duration of one in 128 is taken.
	MultiGets    OperationMetrics
	MultiGetKeys uint64 // MultiGetKeys is the number of keys of these calls.
	// Seeks counts calls of SeekGE and SeekLT of iterators; the duration of one in 64 is taken.
	// Those of an open iterator are counted by 64.
	Seeks OperationMetrics
	// EmptyRanges describes known-empty ranges. Iterators are counted when they are closed.
	EmptyRanges EmptyRangeMetrics
	// Commits counts batches and single writes that became visible. The duration of one in 32 is
	// taken, with its waits and its sync.
	Commits OperationMetrics

	Levels  [7]LevelMetrics // Levels describes the seven levels, 0 first.
	Flush   WorkMetrics     // Flush counts flushes of memtables.
	Compact WorkMetrics     // Compact counts compactions, manual ones included.
	Filter  FilterMetrics   // Filter counts what the compaction filters did.

	// Stalls counts writes that waited, by cause: "memtables", "level0" or "debt", see StallInfo.
	Stalls    map[string]StallMetrics
	StallTime time.Duration // StallTime is the sum of the waits over all causes.
	// WriteDelayPerKiB is how long writers wait now for each KiB, because of the cause "debt".
	WriteDelayPerKiB time.Duration
	// CompactionDebt is the number of bytes that compactions still have to move.
	CompactionDebt uint64

	// Memtables is the number of memtables: the one that takes writes, and those that wait for
	// their flush.
	Memtables       int
	MemtableBytes   int64 // MemtableBytes is the memory of these memtables in bytes.
	MemtableEntries int   // MemtableEntries is the number of entries in them.

	WALBytesWritten int64          // WALBytesWritten is the bytes of batches appended to the log.
	WALSync         LatencyMetrics // WALSync is the durations of syncs of the log.
	// WriteAmplification is bytes written to log and tables per byte of batches; 0 before the first
	// write.
	WriteAmplification float64

	Cache        CacheMetrics // Cache describes the block cache.
	TableReaders int          // TableReaders is the number of open tables.
	// TableReaderBytes is the memory of their indexes, filters and cache slots in bytes.
	TableReaderBytes int64
	// MappedBytes is the bytes of table files that are mapped. They are in the page cache and count
	// as no other memory here.
	MappedBytes     int64
	OpenDescriptors int // OpenDescriptors is the number of descriptors of table files.
	// PrefixSkips is the number of tables that iterators passed over, see Options.PrefixLength.
	PrefixSkips uint64
	// DirectTables is the number of tables that compactions read or wrote past the page cache.
	DirectTables uint64
	// NotDirectTables is the number of tables for which CompactionDirectIO was not possible.
	NotDirectTables uint64
	Values          ValueMetrics // Values describes the values that lie in logs.
	// OffHeapBytes is the memory outside the Go heap in bytes, of the whole process. Subtract it
	// from the memory of the process when you set GOMEMLIMIT.
	OffHeapBytes int64
	// GoHeapBytes is what the Go runtime of the process holds: heap, stacks and its own.
	GoHeapBytes int64

	// OperandsFolded is the number of merge operands that reads, flushes and compactions applied.
	OperandsFolded uint64
	// MergeFailures is the number of calls of merge operators that failed.
	MergeFailures uint64

	Txn         TxnMetrics        // Txn counts transactions.
	Checkpoints CheckpointMetrics // Checkpoints counts checkpoints of the database.
	Backups     CheckpointMetrics // Backups counts backups of the database by package backup.
	// Changes describes the feeds of changes and the logs that are kept for them.
	Changes ChangesMetrics
	Ingests IngestMetrics // Ingests counts ingests and loads.

	// Snapshots is the number of open snapshots, those of transactions included.
	Snapshots int
	// DiskBytes is the size of the tables that the database needs now.
	DiskBytes    uint64
	LastSequence uint64 // LastSequence is the sequence number of the last visible write.

	// ReadOnly is why the database takes no writes, with the stack of a panic; nil if it takes
	// writes. On a closed database it is ErrClosed.
	ReadOnly error
	// BackgroundError is the error of the last flush or compaction if that failed and is to be
	// tried again, else nil.
	BackgroundError error
	// EventsDropped is the number of calls of the listener and records of the logger that were
	// dropped, as earlier ones took too long.
	EventsDropped uint64
}

// The levels of Metrics are those of trees.
var _ = [len(Metrics{}.Levels)]struct{}([manifest.NumLevels]struct{}{})

// MarshalJSON writes the metrics with the names of docs/metrics.md, as C, Python and Node have
// them: durations in nanoseconds, errors as their texts or null. Names and meanings stay; a later
// version may add some.
func (m Metrics) MarshalJSON() ([]byte, error) { return json.Marshal(plain.Of(&m)) }

// Metrics returns the present metrics. On a closed database they are zeros, with ErrClosed in
// ReadOnly.
func (k *keyspace) Metrics() Metrics {
	db := k.root.engine
	state, err := k.space.Present()
	if err != nil {
		return Metrics{ReadOnly: err}
	}
	defer state.Unref()
	parts := db.Parts()
	m := Metrics{
		CompactionDebt: k.space.Debt(state), OffHeapBytes: offheap.InUse(),
		LastSequence:    uint64(parts.Shared.Seqs.Visible()),
		Snapshots:       parts.Shared.Seqs.NumSnapshots(),
		WALBytesWritten: parts.WAL.Bytes(), WALSync: latencies(parts.WAL.Syncs()),
		OperandsFolded: parts.Shared.Folds.Operands.Load(), GoHeapBytes: offheap.GoHeap(),
		MergeFailures: parts.Shared.Folds.Failures.Load(),
		EventsDropped: db.Health().EventsDropped(), DiskBytes: state.Version.Size(),
		Txn: TxnMetrics(db.Txns.Stats()),
	}
	if parts.Opts.ReadOnly || db.Health().Failed() != nil {
		m.ReadOnly = db.Health().Writable()
	}
	m.addOperations(parts)
	m.EmptyRanges.Held = k.space.Tree.EmptyRanges()
	status := parts.Jobs.Status()
	m.BackgroundError, m.WriteDelayPerKiB = status.Err, status.DelayPerKiB
	m.Memtables, m.MemtableBytes, m.MemtableEntries = state.MemTables()
	c := parts.Cache.Stats()
	m.Cache = CacheMetrics{Capacity: c.Capacity, Used: c.Used, Hits: uint64(c.Hits),
		Misses: uint64(c.Misses), Evictions: uint64(c.Evictions)}
	checkpoints, backups := db.Copies.Stats()
	m.Checkpoints, m.Backups = CheckpointMetrics(checkpoints), CheckpointMetrics(backups)
	m.Changes.Feeds = db.Feeds.Open()
	m.Changes.Logs, m.Changes.LogBytes = parts.WAL.Retained()
	m.Ingests = IngestMetrics(db.IngestStats())
	f := parts.Shared.Files.Stats()
	m.TableReaders, m.TableReaderBytes, m.MappedBytes, m.OpenDescriptors =
		f.Readers, f.ReaderBytes, f.MappedBytes, f.Descriptors
	m.PrefixSkips, m.DirectTables, m.NotDirectTables = f.Skipped, f.Direct, f.NotDirect
	m.Values = ValueMetrics(db.ValueStats())
	m.addWork(parts.Jobs.Counters())
	for i := range state.Version.Levels {
		l := &state.Version.Levels[i]
		m.Levels[i].Files, m.Levels[i].Bytes = len(l.Files), l.Size
	}
	if n := float64(m.WALBytesWritten); n > 0 {
		m.WriteAmplification = (n + float64(m.Flush.BytesOut) + float64(m.Compact.BytesOut)) / n
	}
	return m
}

// addOperations fills in the counts and durations of reads and writes.
func (m *Metrics) addOperations(parts store.Parts) {
	ops := parts.Shared.Ops
	m.Gets = OperationMetrics{parts.Shared.Reads.Counted(), latencies(ops.GetTimes.Histogram())}
	m.MultiGets = OperationMetrics{uint64(ops.MultiGets.Sum()),
		latencies(ops.MultiGetTimes.Histogram())}
	m.MultiGetKeys = uint64(ops.MultiGetKeys.Sum())
	m.Seeks = OperationMetrics{uint64(ops.Seeks.Sum()), latencies(ops.SeekTimes.Histogram())}
	m.EmptyRanges = EmptyRangeMetrics{Hits: uint64(ops.EmptyHits.Sum()),
		Cuts: uint64(ops.EmptyCuts.Sum()), Scouts: uint64(ops.Scouts.Sum()),
		DeadEntries: uint64(ops.DeadPassed.Sum())}
	if p := parts.Pipeline; p != nil {
		n, times := p.Commits()
		m.Commits = OperationMetrics{n, latencies(times)}
	}
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
// "leveldb.sstables" and "leveldb.approximate-memory-usage", each also with the prefix "loam." or
// none. ok is false for an unknown name and on a closed database.
func (k *keyspace) Property(name string) (value string, ok bool) { return k.space.Property(name) }

// Range is the keys from Start up to, not including, Limit.
type Range struct {
	Start []byte // Start is the first key of the range; nil: no bound.
	Limit []byte // Limit is the first key after the range; nil: no bound.
}

// ApproximateSizes estimates the bytes on disk that hold each range's data, without what is still
// in memtables; sizes[i] is that of ranges[i]. Tables at the ends of a range are opened if they are
// not. It fails as Get does.
func (k *keyspace) ApproximateSizes(ranges []Range) (sizes []uint64, err error) {
	return k.space.DiskSizes(len(ranges), func(i int) (start, limit []byte) {
		return ranges[i].Start, ranges[i].Limit
	})
}
