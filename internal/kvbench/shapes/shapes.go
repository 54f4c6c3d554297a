// Package shapes is the data of kvbench's experiment of that name: the kinds of databases that
// people have. Each gets about as many bytes as any other, whatever the size of its values.
package shapes

import (
	"slices"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload/store"
)

// Entries is the run's number of entries from which shapes have 64 MB each.
const Entries = 1_000_000

const (
	bytesPerEntry = 64  // of the run's number
	fewestEntries = 16  // of a shape
	readsShare    = 500 // the part of the run's number that is read of few large values at least
)

// Shape is a kind of database and the benchmarks that it is measured by.
type Shape struct {
	Name      string
	ValueSize int
	Prefix    int   // equal bytes before each key
	Threads   int   // 0: the run's
	Divide    int64 // of the number of entries, as threads write all of them each; 0: 1
	Batch     int
	Settings  []store.Setting // on top of those of all shapes
	Steps     []string
}

// reads are what databases are asked, before and after a compaction.
var reads = []string{"readrandom", "readmissing", "seekrandom", "readseq", "readreverse",
	"multireadrandom"}

var (
	all = slices.Concat([]string{"fillseq", "fillrandom", "overwrite"}, reads,
		[]string{"compact"}, reads)
	series = []string{"fillseries", "readseries", "compact", "readseries"}
	hot    = []string{"fillseq", "overwritehot", "overwritehot", "readhot", "compact", "readhot"}
	held   = []string{"overwrite", "overwrite", "overwrite", "overwrite", "readrandom",
		"seekrandom", "readseq"}
	snapshot = slices.Concat([]string{"fillrandom", "holdsnapshot"}, held,
		[]string{"readsnapshot", "release", "compact"})
	iterators = slices.Concat([]string{"fillrandom", "holditerators"}, held,
		[]string{"release", "compact"})
)

// List is all shapes. Those of the same steps stand together.
var List = []Shape{
	{Name: "8 B", ValueSize: 8, Steps: all},
	{Name: "100 B", ValueSize: 100, Steps: all},
	{Name: "1 KiB", ValueSize: 1 << 10, Steps: all},
	{Name: "4 KiB", ValueSize: 4 << 10, Steps: all},
	{Name: "16 KiB", ValueSize: 16 << 10, Steps: all},
	{Name: "64 KiB", ValueSize: 64 << 10, Steps: all},
	{Name: "256 KiB", ValueSize: 256 << 10, Steps: all},
	{Name: "64 equal bytes", ValueSize: 100, Prefix: 64, Steps: all},
	{Name: "no filter", ValueSize: 100, Settings: set("bloom_bits", "0"), Steps: all},
	{Name: "no compression", ValueSize: 100, Settings: set("compression", "none"), Steps: all},
	{Name: "zstd", ValueSize: 100, Settings: set("compression", "zstd"), Steps: all},
	{Name: "cache of 8 MB", ValueSize: 100, Settings: set("cache_size", "8MiB"), Steps: all},
	{Name: "4 threads", ValueSize: 100, Threads: 4, Divide: 4, Steps: all},
	{Name: "64 threads", ValueSize: 100, Threads: 64, Divide: 16, Steps: all},
	{Name: "batches of 100,000", ValueSize: 100, Batch: 100_000,
		Steps: []string{"fillseq", "fillrandom", "overwrite", "readseq", "compact"}},
	{Name: "10,000 series", ValueSize: 8, Steps: series},
	{Name: "1,000 hot keys", ValueSize: 624, Steps: hot},
	{Name: "a snapshot held", ValueSize: 100, Steps: snapshot},
	{Name: "500 iterators held", ValueSize: 100, Steps: iterators},
}

func set(name, value string) []store.Setting { return []store.Setting{{Name: name, Value: value}} }

// Own are the settings of a shape. Memtables are smaller than its bytes, so that reads are of
// tables.
func (s *Shape) Own() []store.Setting {
	return append(set("write_buffer_size", "16MiB"), s.Settings...)
}

// Apply makes p, whose number of entries is the run's, that of the shape.
func (s *Shape) Apply(p *runner.Params) {
	run := p.Num
	p.ValueSize, p.Keys.Prefix = s.ValueSize, s.Prefix
	entries := max(run*bytesPerEntry/int64(p.Keys.Len()+p.ValueSize), min(fewestEntries, run))
	entries = min(entries, run)
	p.Num = max(entries/max(s.Divide, 1), 1)
	if s.Threads > 0 {
		p.Threads = s.Threads
	}
	if p.Reads < 0 {
		p.Reads = max(max(entries, run/readsShare)/int64(max(p.Threads, 1)), 1)
	}
	if s.Batch > 0 {
		p.Batch = s.Batch
	}
}
