package lsm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/hist"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/offheap"
)

// stats counts what the database does. Everything in it may be touched from
// any goroutine.
type stats struct {
	mu          sync.Mutex // leaf; guards the rest
	flushes     WorkMetrics
	compactions WorkMetrics
	levels      [manifest.NumLevels]levelWork
	stalls      map[string]StallMetrics
}

// levelWork is what flushes and compactions wrote into a level.
type levelWork struct {
	read, written uint64
	duration      time.Duration
}

func newStats() *stats { return &stats{stalls: map[string]StallMetrics{}} }

func (s *stats) flushed(memtable int64, r compact.Result, d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushes.add(uint64(memtable), r, d, err)
	if len(r.Added) > 0 {
		l := &s.levels[r.Added[0].Level]
		l.written += r.BytesWritten
		l.duration += d
	}
}

func (s *stats) compacted(p *compact.Plan, results []compact.Result, d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.levels[p.OutputLevel]
	l.duration += d
	s.compactions.Count++
	s.compactions.Duration += d
	if err != nil {
		s.compactions.Failed++
		return
	}
	if p.TrivialMove {
		s.compactions.Moves++
		return
	}
	l.read += p.InputBytes
	s.compactions.BytesIn += p.InputBytes
	for _, r := range results {
		l.written += r.BytesWritten
		s.compactions.BytesOut += r.BytesWritten
		s.compactions.EntriesIn += r.EntriesIn
		s.compactions.EntriesOut += r.EntriesOut
	}
}

func (s *stats) stalled(db *DB, cause string, d time.Duration) {
	s.mu.Lock()
	m := s.stalls[cause]
	m.Count++
	m.Duration += d
	s.stalls[cause] = m
	s.mu.Unlock()
	if f := db.opts.Events.WriteStall; f != nil {
		db.events.Post(func() { f(StallInfo{Cause: cause, Duration: d}) })
	}
}

// WorkMetrics counts one kind of background work.
type WorkMetrics struct {
	Count, Failed, Moves  int64
	BytesIn, BytesOut     uint64
	EntriesIn, EntriesOut uint64
	Duration              time.Duration
}

func (w *WorkMetrics) add(in uint64, r compact.Result, d time.Duration, err error) {
	w.Count++
	w.Duration += d
	if err != nil {
		w.Failed++
		return
	}
	w.BytesIn += in
	w.BytesOut += r.BytesWritten
	w.EntriesIn += r.EntriesIn
	w.EntriesOut += r.EntriesOut
}

// StallMetrics counts writes that had to wait, for one cause.
type StallMetrics struct {
	Count    int64
	Duration time.Duration
}

// LevelMetrics describes one level.
type LevelMetrics struct {
	Files                   int
	Bytes                   uint64 // of its tables
	BytesRead, BytesWritten uint64 // by compactions into it, and flushes
	Duration                time.Duration
}

// CacheMetrics describes the block cache, which other databases may share.
type CacheMetrics struct {
	Capacity, Used          int64
	Hits, Misses, Evictions uint64
}

// LatencyMetrics summarises a histogram, in nanoseconds.
type LatencyMetrics struct {
	Count                      int64
	Mean                       float64
	P50, P99, P999, P9999, Max int64
}

func latencies(h *hist.Histogram) LatencyMetrics {
	return LatencyMetrics{
		Count: int64(h.Count()), Mean: h.Mean(), P50: h.Quantile(0.5), P99: h.Quantile(0.99),
		P999: h.Quantile(0.999), P9999: h.Quantile(0.9999), Max: h.Max(),
	}
}

// Metrics is a snapshot of the database's counters since Open.
type Metrics struct {
	Levels             [manifest.NumLevels]LevelMetrics
	Flush              WorkMetrics
	Compact            WorkMetrics
	Stalls             map[string]StallMetrics // by cause: memtables, level0, debt
	StallTime          time.Duration
	WriteDelayPerKiB   time.Duration // what the debt costs writers now
	CompactionDebt     uint64        // bytes that compactions still have to move
	Memtables          int
	MemtableBytes      int64
	MemtableEntries    int
	WALBytesWritten    int64 // batches as encoded
	WALSync            LatencyMetrics
	WriteAmplification float64 // bytes written to log and tables / bytes of batches
	Cache              CacheMetrics
	TableReaders       int
	TableReaderBytes   int64 // indexes, filters and cache slots
	OpenDescriptors    int
	OffHeapBytes       int64 // of the whole process: set GOMEMLIMIT with this in mind
	Snapshots          int
	DiskBytes          uint64 // tables of the current version
	LastSequence       uint64
	ReadOnly           error  // why the database takes no writes, nil if it does; of a panic, with its stack
	BackgroundError    error  // of the last flush or compaction if it failed and is to be tried again, else nil
	EventsDropped      uint64 // calls of the listener and records of the logger that a slow one missed
}

// Metrics returns the counters; on a closed database, zeros.
func (db *DB) Metrics() Metrics {
	v := db.tree.Acquire()
	if v == nil {
		return Metrics{ReadOnly: ErrClosed}
	}
	defer v.Unref()
	m := Metrics{
		CompactionDebt: compact.Debt(v.Version, db.bg.config()), OffHeapBytes: offheap.InUse(),
		WriteDelayPerKiB: time.Duration(db.bg.delayNanos.Load()), LastSequence: uint64(db.shared.Seqs.Visible()),
		WALBytesWritten: db.wal.Bytes(), WALSync: latencies(db.wal.Syncs()),
	}
	if db.opts.ReadOnly || db.failure.Load() != nil {
		m.ReadOnly = db.writable()
	}
	db.bg.mu.Lock()
	m.BackgroundError = errors.Join(db.bg.flushErr, db.bg.compErr)
	db.bg.mu.Unlock()
	m.EventsDropped = db.events.Dropped()
	m.Memtables = 1 + len(v.Sealed)
	m.MemtableBytes, m.MemtableEntries = v.Mem.MemoryUsage(), v.Mem.Len()
	for _, s := range v.Sealed {
		m.MemtableBytes += s.Mem.MemoryUsage()
		m.MemtableEntries += s.Mem.Len()
	}
	m.Snapshots = db.shared.Seqs.NumSnapshots()
	c := db.cache.Stats()
	m.Cache = CacheMetrics{Capacity: c.Capacity, Used: c.Used, Hits: uint64(c.Hits), Misses: uint64(c.Misses), Evictions: uint64(c.Evictions)}
	f := db.shared.Files.Stats()
	m.TableReaders, m.TableReaderBytes, m.OpenDescriptors = f.Readers, f.ReaderBytes, f.Descriptors
	db.stats.fill(&m)
	for i := range v.Version.Levels {
		l := &v.Version.Levels[i]
		m.Levels[i].Files, m.Levels[i].Bytes = len(l.Files), l.Size
	}
	m.DiskBytes = v.Version.Size()
	if m.WALBytesWritten > 0 {
		written := float64(m.WALBytesWritten) + float64(m.Flush.BytesOut) + float64(m.Compact.BytesOut)
		m.WriteAmplification = written / float64(m.WALBytesWritten)
	}
	return m
}

func (s *stats) fill(m *Metrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Flush, m.Compact = s.flushes, s.compactions
	m.Stalls = make(map[string]StallMetrics, len(s.stalls))
	for cause, stall := range s.stalls {
		m.Stalls[cause] = stall
		m.StallTime += stall.Duration
	}
	for i, l := range s.levels {
		m.Levels[i].BytesRead, m.Levels[i].BytesWritten, m.Levels[i].Duration = l.read, l.written, l.duration
	}
}

// Property answers LevelDB's properties: "leveldb.num-files-at-level<N>",
// "leveldb.stats", "leveldb.sstables", "leveldb.approximate-memory-usage"; each
// also under "loam.". ok is false for an unknown name and on a closed database.
func (db *DB) Property(name string) (value string, ok bool) {
	rest, ok := strings.CutPrefix(name, "leveldb.")
	if !ok {
		if rest, ok = strings.CutPrefix(name, "loam."); !ok {
			return "", false
		}
	}
	v := db.tree.Acquire()
	if v == nil {
		return "", false
	}
	defer v.Unref()
	if digits, ok := strings.CutPrefix(rest, "num-files-at-level"); ok {
		level, err := strconv.ParseUint(digits, 10, 8)
		if err != nil || level >= manifest.NumLevels {
			return "", false
		}
		return strconv.Itoa(len(v.Version.Levels[level].Files)), true
	}
	switch rest {
	case "stats":
		return db.statsProperty(), true
	case "sstables":
		return v.Version.String(), true
	case "approximate-memory-usage":
		m := db.Metrics()
		return strconv.FormatInt(m.MemtableBytes+m.Cache.Used+m.TableReaderBytes, 10), true
	}
	return "", false
}

// statsProperty has the columns of LevelDB's table of compactions.
func (db *DB) statsProperty() string {
	var b strings.Builder
	b.WriteString("                               Compactions\n")
	b.WriteString("Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n")
	b.WriteString("--------------------------------------------------\n")
	const mb = 1 << 20
	for i, l := range db.Metrics().Levels {
		if l.Files == 0 && l.BytesWritten == 0 {
			continue
		}
		fmt.Fprintf(&b, "%3d %8d %8.0f %9.0f %8.0f %9.0f\n", i, l.Files, float64(l.Bytes)/mb,
			l.Duration.Seconds(), float64(l.BytesRead)/mb, float64(l.BytesWritten)/mb)
	}
	return b.String()
}

// Range is the keys from Start up to, not including, Limit; nil is no bound.
type Range struct{ Start, Limit []byte }

// ApproximateSizes estimates the bytes on disk that hold each range's data, not
// counting what is still in memtables.
func (db *DB) ApproximateSizes(ranges []Range) (sizes []uint64, err error) {
	v := db.tree.Acquire()
	if v == nil {
		return nil, ErrClosed
	}
	defer v.Unref()
	defer db.catch(&err)
	sizes = make([]uint64, len(ranges))
	for i, r := range ranges {
		if sizes[i], err = v.DiskSize(r.Start, r.Limit); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}
