package kvbench

import (
	"fmt"
	"strconv"
	"time"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// sweeps are the experiments that vary one thing.
var sweeps = []experiment{
	{
		name:  "scale",
		title: "the cost of a write as the database grows",
		doc:   "fillrandom and reads of 1, 10 and 100 million entries",
		source: "fillrandom on 24 cores: 5.2 us for 10 million entries, 6.0 for 100 million, " +
			"10.3 for 1,000 million",
		num: 1_000_000, matched: true,
		variants: []variant{
			scaleVariant("smallest", 1, 0), scaleVariant("10 times", 10, 5.2),
			scaleVariant("100 times", 100, 6.0),
		},
		notes: []string{"scale=N makes N the smallest size; the published figures stand beside " +
			"their own sizes only."},
	},
	{
		name:   "cache",
		title:  "what a block cache saves: random reads of key%d -> value%d",
		doc:    "random reads of a million small entries with 8 and 100 MB of cache",
		source: "a million random reads in 9.8 s with 8 MB and 4.8 s with 100 MB",
		num:    1_000_000,
		adjust: func(p *runner.Params) { p.Keys.Style, p.NamedValues = workload.Named, true },
		variants: []variant{
			{name: "8 MB", settings: set("cache_size", "8MiB"),
				steps: []step{{"fillseq", 0}, {"readrandom", 9.8}, {"readrandom", 0}}},
			{name: "100 MB", settings: set("cache_size", "100MiB"),
				steps: []step{{"fillseq", 0}, {"readrandom", 4.8}, {"readrandom", 0}}},
		},
	},
	{
		name:   "sync",
		title:  "the cost of durability: a million writes, every 1, 10, 100 or none of them synced",
		doc:    "writes synced every 1, 10, 100 times, and never",
		source: "a million writes in more than 90 s, 12 s, 5 s and 3 s",
		num:    1_000_000, matched: true,
		variants: []variant{syncVariant(1, 90), syncVariant(10, 12), syncVariant(100, 5),
			syncVariant(0, 3)},
	},
	{
		name:  "batch",
		title: "writes in batches of 1 to 1,000 entries",
		doc:   "fillseq and fillrandom in batches of 1, 2, 5, 10, 100, 1,000",
		num:   1_000_000, matched: true,
		variants: sweep("batches of %d", func(n int, p *runner.Params) {
			p.Batch = n
		}, []string{"fillseq", "fillrandom"}, 1, 2, 5, 10, 100, 1000),
	},
	{
		name:  "compression",
		title: "what compression costs writes and reads, and saves on disk",
		doc:   "writes and reads with none, snappy and zstd",
		num:   2_000_000, matched: true,
		variants: []variant{
			optionVariant("none", set("compression", "none"), compressionSteps...),
			optionVariant("snappy", set("compression", "snappy"), compressionSteps...),
			optionVariant("zstd", set("compression", "zstd"), compressionSteps...),
		},
	},
	{
		name:  "blocksize",
		title: "blocks of 4, 8 and 16 KiB, as in RocksDB's benchmark tables",
		doc: "bulkload, overwrite, readwhilewriting, readrandom with blocks of 4, 8, 16 KiB, " +
			"and percentiles",
		num: 10_000_000, matched: true,
		adjust: func(p *runner.Params) { p.Histogram = true },
		variants: []variant{
			optionVariant("4 KiB", set("block_size", "4096"), blockSteps...),
			optionVariant("8 KiB", set("block_size", "8192"), blockSteps...),
			optionVariant("16 KiB", set("block_size", "16384"), blockSteps...),
		},
		notes: []string{"w-amp: bytes written to log and tables per byte of keys and values."},
	},
	{
		name:  "filesize",
		title: "tables of 2, 32 and 64 MB",
		doc:   "fillrandom, readrandom and compaction with tables of 2, 32, 64 MB",
		num:   10_000_000, matched: true,
		variants: []variant{
			optionVariant("2 MB", set("max_file_size", "2MiB"), fileSteps...),
			optionVariant("32 MB", set("max_file_size", "32MiB"), fileSteps...),
			optionVariant("64 MB", set("max_file_size", "64MiB"), fileSteps...),
		},
	},
	{
		name:  "threads",
		title: "1, 2, 4 and 8 threads, each doing all operations",
		doc:   "writes and reads by 1, 2, 4, 8 threads",
		num:   1_000_000, matched: true,
		variants: sweep("%d threads", func(n int, p *runner.Params) { p.Threads = n },
			[]string{"fillseq", "fillrandom", "readrandom", "readrandom", "multireadrandom",
				"seekrandom", "readseq"}, 1, 2, 4, 8),
	},
	{
		name: "stalls",
		title: "how long single writes take: at full speed, at half of it, beside a compaction " +
			"of everything",
		doc:    "percentiles of writes at full and half speed, and beside compactions",
		num:    4_000_000,
		adjust: func(p *runner.Params) { p.Histogram = true },
		variants: []variant{
			{name: "LevelDB's defaults", settings: leveldbSettings, steps: stallSteps},
			{name: "%s's defaults", steps: stallSteps},
		},
	},
	{
		name: "budget",
		title: "four databases that share 256 MiB: what the process takes, and a quiet one " +
			"beside one that is loaded",
		doc: "databases that share memory: resident set, and percentiles of a quiet one alone " +
			"and beside a load",
		num: 4_000_000,
		variants: []variant{
			{name: "%s's defaults", steps: steps("budget", "quietshared", "quietwhileloading")},
		},
		notes: []string{"resident MB: by how much the resident set of the process grew at most; " +
			"the databases share 256 MB."},
	},
	{
		name:  "values",
		title: "values of 1, 16 and 256 KiB, copied and where they lie in the cache",
		doc:   "random reads of large values, with a copy and without one",
		num:   2_000, matched: true,
		variants: []variant{valuesVariant(1, 80), valuesVariant(16, 10), valuesVariant(256, 1)},
	},
	{
		name:  "sustained",
		title: "ten minutes of overwrites after a bulk load, as in RocksDB's benchmark tables",
		doc:   "bulkload, then overwrite for ten minutes, or --seconds, with its rate over time",
		num:   10_000_000,
		adjust: func(p *runner.Params) {
			if p.Duration == 0 {
				p.Duration = 10 * time.Minute
			}
			p.Timeline = true
		},
		variants: []variant{
			{name: "LevelDB's defaults", settings: leveldbSettings,
				steps: steps("bulkload", "overwrite")},
			{name: "%s's defaults", steps: steps("bulkload", "overwrite")},
		},
	},
}

var (
	stallSteps = steps("filluniquerandom", "overwrite", "overwritehalf",
		"overwritewhilecompacting")
	compressionSteps = []string{"fillseq", "fillrandom", "compact", "readrandom", "readrandom",
		"readseq"}
	blockSteps = []string{"bulkload", "overwrite", "readwhilewriting", "readrandom"}
	fileSteps  = []string{"filluniquerandom", "readrandom", "overwrite", "compact", "readrandom"}
)

func set(name, value string) []store.Setting { return []store.Setting{{Name: name, Value: value}} }

func steps(names ...string) []step {
	all := make([]step, len(names))
	for i, n := range names {
		all[i].bench = n
	}
	return all
}

func scaleVariant(name string, factor, published float64) variant {
	return variant{name: name, scale: factor, steps: []step{{"fillrandom", published},
		{"readrandom", 0}, {"seekrandom", 0}, {"readseq", 0}}}
}

func syncVariant(every int64, published float64) variant {
	name := "never"
	if every > 0 {
		name = "every " + strconv.FormatInt(every, 10)
	}
	return variant{name: name, steps: []step{{"fillrandom", published}},
		adjust: func(p *runner.Params) { p.SyncEvery = every }}
}

// valuesVariant reads all values once before, so that they are cached, and compacts before that, so
// that they stay so.
func valuesVariant(kib int, scale float64) variant {
	return variant{name: fmt.Sprintf("%d KiB", kib), scale: scale,
		steps:  steps("filluniquerandom", "compact", "readseq", "readrandom", "readpinned"),
		adjust: func(p *runner.Params) { p.ValueSize = kib << 10 }}
}

func optionVariant(name string, settings []store.Setting, names ...string) variant {
	return variant{name: name, settings: settings, steps: steps(names...)}
}

// sweep makes a variant for each number.
func sweep(format string, apply func(n int, p *runner.Params), names []string,
	numbers ...int) []variant {
	all := make([]variant, len(numbers))
	for i, n := range numbers {
		all[i] = variant{name: fmt.Sprintf(format, n), steps: steps(names...),
			adjust: func(p *runner.Params) { apply(n, p) }}
	}
	return all
}
